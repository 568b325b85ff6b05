"""Where benchmarks run: a private durable server with an installed database, gone afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from cli.servers.embedded_postgres import Cluster
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.environment import VISIBLE
from turno.jobs.new_job import NewJob
from turno.settings import Settings
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import call_as_api, qualified_statement, service_session
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.files import packaged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from uuid import UUID

    from turno.jobs.handler import JobHandler
    from turno.tenancy.identity.tenant import Tenant

ROOT = Path(__file__).resolve().parent.parent
COMPANY = "northwind"
KEY = "the benchmarks' own master key, 32 or more"
TABLES = packaged(ROOT / "migrations")
SHARED_BUFFERS = "512MB"  # the settings of the peers' measurements


@dataclass(frozen=True, slots=True)
class BenchEnvironment:
    """An installed database on a private server; `admin` is its superuser's session."""

    cluster: Cluster
    url: str
    folder: Path
    logins: Logins
    admin: psycopg.Connection[Any]

    def tenant(self, slug: str) -> Tenant:
        """Add a tenant."""
        return add_tenant(self.admin, self.logins, slug, COMPANY, migrations=TABLES)

    def environment(self, **extra: str) -> dict[str, str]:
        """Return the variables of a process that belongs here."""
        return {
            **os.environ,
            "DATABASE_URL": self.url,
            "TURNO_MASTER_KEY": KEY,
            "TURNO_HANDLERS": "handlers:build_registry",
            "TURNO_JWT_KEY": "the benchmarks' own token key, long enough",
            "TURNO_RUN_FOLDER": str(self.folder / "slots"),
            "TURNO_LOG_LEVEL": "WARNING",
            "TURNO_DOTENV": "read",
            VISIBLE: "yes",
            "PYTHONPATH": str(ROOT),
            **extra,
        }

    def settings(self, **extra: str) -> Settings:
        """Return the settings of a process that belongs here."""
        return Settings.read(self.environment(**extra))

    def in_schema(self, tenant: Tenant) -> psycopg.Connection[Any]:
        """Return the superuser's session with the tenant's schema as its path."""
        self.admin.execute(sql.SQL("SET search_path = {}, pg_catalog").format(sql.Identifier(tenant.schema)))
        return self.admin

    def enqueue(
        self, handler: type[JobHandler[Any]], tenant: Tenant, payload: dict[str, Any], backend: str = "exec"
    ) -> UUID:
        """Enqueue a job for one attempt and without a hint."""
        new = NewJob.of(handler, payload, backend=backend, max_attempts=1, user_id="ana")
        with service_session(self.logins, self.logins.web, application="bench-web") as web:
            job_id: UUID = call_as_api(web, tenant, ENQUEUE, submission(new))["job_id"]
        return job_id

    def enqueue_many(self, new: NewJob, tenant: Tenant, count: int) -> None:
        """Enqueue `n` copies of a job in one transaction, without a hint."""
        statement = qualified_statement(ENQUEUE, tenant.schema)
        self.admin.execute(statement, submission(*[new] * count))

    def database(self, name: str) -> str:
        """Make one more database, empty, and return where the superuser reaches it."""
        self.admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self._named(name))))
        return self.url_of(name)

    def url_of(self, name: str) -> str:
        """Return where the superuser reaches a database that `database` made."""
        return self.cluster.url_of(self._named(name))

    def _named(self, name: str) -> str:
        return f"{self.admin.info.dbname}_{name}"


def private_server(folder: Path) -> AbstractContextManager[Cluster]:
    """Return a server that syncs every commit; the smoke runs share another."""
    return Cluster(data=folder / "data", durable=True, settings={"shared_buffers": SHARED_BUFFERS})


def new_database(cluster: Cluster) -> str:
    """Make an empty database and return where the superuser reaches it; the smoke runs clone an installed one."""
    with psycopg.connect(cluster.url, autocommit=True) as server:
        server.execute("CREATE DATABASE bench")
    return cluster.url_of("bench")


@contextmanager
def open_environment() -> Iterator[BenchEnvironment]:
    """Start a server that syncs every commit, install Turno in it, and take all of it away in the end."""
    folder = Path(tempfile.mkdtemp(prefix="turno-bench-"))
    try:
        with private_server(folder) as cluster:
            url = new_database(cluster)
            logins = Logins(url, KEY.encode())
            with psycopg.connect(url, autocommit=True) as admin:
                install(admin, logins)
                add_company(admin, logins, COMPANY, "Northwind Traders")
                yield BenchEnvironment(cluster, url, folder, logins, admin)
    finally:
        shutil.rmtree(folder)
