"""Log in as the provisioner, which creates roles, schemas and tenants."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from turno.environment import project, read_settings
from turno.errors import InvalidSettings
from turno.jobs.handler import named_handlers
from turno.process_name import person
from turno.settings import Settings
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import CONNECT_TIMEOUT
from turno.tenancy.schema_migrations.all_schemas import Connect
from turno.tenancy.schema_migrations.files import Migrations, packaged
from turno.wiring.logins import logins_of


def admin_session(settings: Settings) -> psycopg.Connection[Any]:
    """Log in as the provisioner, in autocommit; raises InvalidSettings without a URL.

    The audit records the session's changes under the name of the command's user.
    """
    admin = psycopg.connect(
        settings.require("database_url").provisioner_url,
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT,
        application_name="turno-admin",
    )
    admin.execute("SELECT set_config('turno.actor', %s, false)", [person()])
    return admin


@contextmanager
def provisioning() -> Iterator[tuple[psycopg.Connection[Any], Logins]]:
    """Log in as the provisioner by the settings of this process; yield the session, and the installation's logins."""
    settings = read_settings()
    with admin_session(settings) as admin:
        yield admin, logins_of(settings)


def provisioner(settings: Settings) -> Connect:
    """Return the function that opens the provisioner's sessions; raises InvalidSettings without a URL."""
    return partial(admin_session, settings.require("database_url"))


def announce_handlers(admin: psycopg.Connection[Any], settings: Settings) -> list[str]:
    """Register the handlers of TURNO_HANDLERS, also in place of newer ones, and return their types.

    Raises InvalidSettings if TURNO_HANDLERS cannot be imported.
    """
    if not settings.handlers:
        return []
    registry = named_handlers(settings.handlers)
    Engine.on(admin).announce(of(registry), settings.limits.pending, replace_newer=True)
    return sorted({job_type for job_type, _ in registry.versions})


def migrations() -> Migrations:
    """Return the migrations of this release and of the project; raises InvalidSettings if its folder is missing."""
    named = project().get("migrations")
    folder = Path(named) if named else None
    if folder is not None and not folder.is_dir():
        raise InvalidSettings([f"pyproject.toml: [tool.turno] migrations={named}: there is no such folder"])
    return packaged(folder)


def tenant_connections(admin: psycopg.Connection[Any], settings: Settings) -> int:
    """Return how many sessions a tenant's handlers may open: two for each child of all hosts with workers."""
    row = admin.execute("SELECT greatest(1, count(DISTINCT host)) FROM turno.workers").fetchone()
    assert row is not None, "an aggregate returns a row"  # noqa: S101
    children = settings.max_children + settings.reserve_children
    in_requests = 0 if settings.enable_background_jobs else settings.web_workers * settings.web_threads
    return int(row[0]) * max(2 * children, in_requests)
