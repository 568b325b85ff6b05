"""Ask and command one tenant's jobs from the command line, by the same statements as the web."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, Cursor

from turno.dispatch.dispatcher import BackendChoice, Dispatcher
from turno.environment import read_settings
from turno.tenancy.identity.directory import Directory
from turno.tenancy.identity.session import as_api, service_session
from turno.tenancy.identity.tenant import Tenant
from turno.wiring.logins import logins_of, operator_session
from turno.wiring.shared import queue_named


@dataclass(frozen=True, slots=True)
class TenantSession:
    """One tenant, seen as its API role: every user's jobs, and nothing of another tenant."""

    tenant: Tenant
    connection: Connection[Any]
    dispatcher: Dispatcher

    def read(self, question: Callable[[Cursor[dict[str, Any]]], Any]) -> Any:
        """Return the result of `question`, in a separate transaction."""
        with as_api(self.connection, self.tenant) as reader:
            return question(reader)

    def lend(self) -> nullcontext[Connection[Any]]:
        """Lend the connection, as the pool of the web does."""
        return nullcontext(self.connection)


@dataclass(frozen=True, slots=True)
class AllTenants:
    """Every tenant's jobs: found by the operator's login, read and changed by the web's, one tenant per transaction."""

    operator: Connection[Any]
    connection: Connection[Any]
    directory: Directory
    dispatcher: Dispatcher


@contextmanager
def all_tenants() -> Iterator[AllTenants]:
    """Open the sessions that commands about many tenants need."""
    with _web_session() as (connection, directory, dispatcher), operator_session(read_settings()) as operator:
        yield AllTenants(operator, connection, directory, dispatcher)


@contextmanager
def session_of(slug: str) -> Iterator[TenantSession]:
    """Open a session on the active tenant with this slug; raises UnknownTenant."""
    with _web_session() as (connection, directory, dispatcher):
        yield TenantSession(directory.find(slug), connection, dispatcher)


@contextmanager
def _web_session() -> Iterator[tuple[Connection[Any], Directory, Dispatcher]]:
    settings = read_settings()
    logins = logins_of(settings)
    with service_session(logins, logins.web, application="turno-cli") as connection:

        def lend() -> nullcontext[Connection[Any]]:
            return nullcontext(connection)

        choice = BackendChoice(
            connection=lend, default=settings.queue_backend, open_queue=lambda name: queue_named(name, settings)
        )
        dispatcher = Dispatcher(
            connection=lend,
            queue=choice.queue_of,
            pending_limit=settings.limits.pending,
            day_limits=settings.limits.per_day,
        )
        yield connection, Directory(lend), dispatcher
