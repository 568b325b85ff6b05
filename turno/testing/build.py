"""Install into an empty database, with tenants and filled tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from turno.jobs.handler import named_handlers
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.identity.connections import LAST, Moments
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.files import Migrations, packaged
from turno.testing.installation import KEY, Installation

FOREVER = LAST  # the run_at of a job that waits for a person
Kind = TypeVar("Kind", bound=Installation)


def install_tenants(
    admin: psycopg.Connection[Any],
    logins: Logins,
    company: tuple[str, str],
    slugs: Iterable[str],
    migrations: Migrations,
) -> dict[str, Tenant]:
    """Install, or complete an installation, and add tenants of one company, given as slug and name."""
    install(admin, logins)
    add_company(admin, logins, *company)
    return {slug: add_tenant(admin, logins, slug, company[0], migrations=migrations) for slug in slugs}


@contextmanager
def build_installation(
    url: str,
    folder: Path,
    fill: Mapping[str, Callable[[psycopg.Connection[Any]], None]],
    kind: type[Kind],
    tables: Path | None = None,
) -> Iterator[Kind]:
    """Install into the empty database at `url`, add a tenant of each name, and let its function fill its tables.

    `tables` is the folder of the application's migrations.
    """
    logins = Logins(url, KEY.encode())
    with psycopg.connect(url, autocommit=True) as admin:
        admin.adapters.register_loader("timestamptz", Moments)
        tenants = install_tenants(admin, logins, ("northwind", "Northwind Traders"), fill, packaged(tables))
        for slug, fill_tables in fill.items():
            with admin.transaction():
                admin.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(tenants[slug].schema)))
                fill_tables(admin)
        with (
            service_session(logins, logins.web, application="test-web") as web,
            service_session(logins, logins.engine, application="test-engine") as engine,
        ):
            installation = kind(url, folder, logins, tenants, admin, web, Engine.on(engine))
            if installation.registry:
                handlers = of(named_handlers(installation.registry))
                Engine.on(admin).announce(handlers, installation.settings.limits.pending)
            yield installation
            installation.stop_workers()
