"""The functions of `turno db migrate`, `turno tenant` and `turno token`, for a program that creates tenants."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from psycopg import Connection

from turno.commands.token import development_token
from turno.environment import DEMO_ENVIRONMENT, read_settings, variables
from turno.maintenance.each_tenant import EachTenant
from turno.maintenance.tasks import MaintenanceFailed, rescue_orphans
from turno.settings import Settings
from turno.store.engine.engine import Engine
from turno.store.statements import qualified
from turno.tenancy.identity.directory import UnknownTenant, find_tenant
from turno.tenancy.identity.session import LoginRefused, handler_session, service_session
from turno.tenancy.identity.tenant import HandlerLogin, Tenant
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant, raise_connections, reset_login
from turno.tenancy.schema_migrations.all_schemas import failed, migrate
from turno.tenancy.schema_migrations.one_schema import MigrationFailed
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import announce_handlers, migrations, provisioner, tenant_connections

__all__ = [
    "DEMO_ENVIRONMENT",
    "Administration",
    "MigrationFailed",
    "Tenant",
    "UnknownTenant",
    "variables",
]


class Administration:
    """An installation as its provisioner, with the URL in TURNO_ADMIN_DATABASE_URL or DATABASE_URL."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """Take the settings from these variables, or from the environment; raises InvalidSettings."""
        self._settings = read_settings() if variables is None else Settings.read(variables)
        self._logins = logins_of(self._settings)
        self._connect = provisioner(self._settings)
        self._migrations = migrations()

    def migrate(self) -> None:
        """Install missing parts and migrate each schema to this release; raises the first MigrationFailed."""
        with self._connect() as admin:
            install(admin, self._logins)
            raise_connections(admin, tenant_connections(admin, self._settings))
            announce_handlers(admin, self._settings)
        for outcome in failed(migrate(self._connect, self._logins, migrations=self._migrations)):
            raise MigrationFailed(outcome)

    def add_company(self, slug: str, name: str) -> None:
        """Create a company, or keep the existing company."""
        with self._connect() as admin:
            add_company(admin, self._logins, slug, name)

    def add_tenant(
        self,
        slug: str,
        company: str,
        *,
        parent: str | None = None,
        adopt: Callable[[Connection[Any], Tenant], str] | None = None,
    ) -> Tenant:
        """Return the tenant, created if it is missing, with a login for the present TURNO_MASTER_KEY.

        `adopt` is called in the transaction that registers the tenant, and returns the schema of the application in
        which its handlers work, too; see `turno.capabilities.adoption.program`.
        """
        with self._connect() as admin:
            tenant = add_tenant(
                admin,
                self._logins,
                slug,
                company,
                parent=parent,
                connections=tenant_connections(admin, self._settings),
                migrations=self._migrations,
                adopt=adopt,
            )
            try:
                handler_session(
                    self._logins,
                    HandlerLogin.of(tenant),
                    application="turno-admin",
                    kind=Connection[Any],
                    server_version=admin.info.server_version,
                ).close()
            except LoginRefused:
                # The key is another than when the tenant was made, and with it the password derived from it.
                reset_login(admin, self._logins, slug)
            return find_tenant(admin, slug)

    @contextmanager
    def as_owner(self, slug: str) -> Iterator[Connection[Any]]:
        """Run one transaction as the owner of a tenant's schema, in which unqualified names are found."""
        with self._connect() as admin:
            tenant = find_tenant(admin, slug)
            with admin.transaction():
                admin.execute(
                    "SELECT set_config('role', %s, true), set_config('search_path', %s, true)",
                    (tenant.owner_role, f"{tenant.schema},pg_temp"),
                )
                yield admin

    def cancel_open_jobs(self, slug: str, *, reason: str) -> int:
        """Cancel the waiting jobs of a tenant and request the end of the running ones; return how many still run."""
        with self.as_owner(slug) as owner:
            (schema,) = owner.execute("SELECT current_schema()").fetchall()[0]
            open_jobs = "FROM background_jobs WHERE status IN ('pending', 'running')"
            owner.execute(qualified("SELECT {}.job_cancel(id, NULL, %s) " + open_jobs, schema), (reason,))
            return owner.execute("SELECT " + open_jobs).rowcount

    def rescue_all(self, cause: str) -> None:
        """Take back the claims of all dead workers; no other process may run a job of them now."""
        with service_session(self._logins, self._logins.engine, application="turno-admin") as session:
            engine = Engine.on(session)
            engine.prune_workers(timedelta(0))
            each_tenant = EachTenant(engine)
            each_tenant.complete = True
            report = rescue_orphans(engine, each_tenant, cause=cause, retry_in=timedelta(0), counted=False)
            if report.troubles:
                raise MaintenanceFailed.of(report.troubles)

    def development_token(self, user: str, tenants: Sequence[str], *, minutes: int = 60) -> str:
        """Return a token that this installation's web accepts, where it checks them with a shared secret."""
        return development_token(self._settings, user=user, tenants=tenants, minutes=minutes)
