"""The connection of a job as a database of Django: models, atomic() and select_for_update in the job's transaction."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.backends.postgresql.base import Cursor, DatabaseWrapper
from django.db.backends.postgresql.psycopg_any import get_adapters_template
from django.db.backends.signals import connection_created
from django.db.transaction import Atomic
from psycopg.adapt import AdaptersMap
from psycopg.errors import UndefinedTable
from psycopg.rows import TupleRow

from turno.errors import HandlerMisuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg.abc import PQGen

    from turno.jobs.job_context import JobContext

RV = TypeVar("RV")
NO_TABLE = (
    "The login of a job reads the schema of its tenant alone: migrate this tenant; for a model of SHARED_APPS give the"
    " payload of the job the values"
)
_ALIAS: ContextVar[str | None] = ContextVar("_ALIAS", default=None)  # of the database that is a job's


@contextmanager
def job_database(job: JobContext, using: str = DEFAULT_DB_ALIAS) -> Iterator[None]:
    """Make the connection of the job the database `using` of Django for the block.

    Models read and write under the login of the tenant, in the transaction of the job; each `atomic()` is a savepoint.
    Raises HandlerMisuse if the handler closes the connection, calls `transaction.on_commit`, switches to another tenant
    of django-tenants or awaits a query, and the error of psycopg in place of Django's, so that a deadlock is retried as
    in every job.
    """
    wrapper = wrapper_class(connections.settings[using]["ENGINE"])(job.connection, using)
    wrapper.connect()
    # Without an outer block Django would accept atomic(durable=True), which no commit follows.
    wrapper.atomic_blocks.append(Atomic(using, savepoint=False, durable=False))
    wrapper.in_atomic_block = True
    before = getattr(connections._connections, using, None)  # noqa: SLF001 - Django has no other way to restore it
    connections[using] = wrapper
    token = _ALIAS.set(using)
    try:
        yield
        if wrapper.needs_rollback:
            raise HandlerMisuse("an error inside atomic(savepoint=False) was caught: let it pass, or use a savepoint")
    except Error as error:
        cause = error.__cause__
        if isinstance(cause, UndefinedTable):
            raise UndefinedTable(f"{cause}\n{NO_TABLE}") from error
        if isinstance(cause, psycopg.Error):
            raise cause from error
        raise
    finally:
        _ALIAS.reset(token)
        if before is None:
            del connections[using]
        else:
            connections[using] = before


def refuse_other_session(connection: Any, **_: Any) -> None:
    """Refuse a second session for the database of a job: Django runs awaited queries in a thread without the job's."""
    if connection.alias == _ALIAS.get() and not isinstance(connection, JobDatabase):
        connection.close()
        raise HandlerMisuse(
            "a query of Django in another thread is outside of the job's transaction: write `def handle`, or use"
            " job.async_connection"
        )


connection_created.connect(refuse_other_session)


class JobSession(psycopg.Connection[TupleRow]):
    """The session of the job with the adapters of Django; only the executor ends it."""

    def __init__(self, session: psycopg.Connection[Any], adapters: AdaptersMap) -> None:
        super().__init__(session.pgconn)
        self._session = session
        self._adapters = AdaptersMap(adapters)
        self._autocommit = True  # its setter would refuse where a transaction is open
        self._pool = None  # so that psycopg does not warn: the session is not left open, its executor has it
        self.prepare_threshold = None  # the other object would give its statements the same names
        self.cursor_factory = Cursor

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Run a statement as the session of the job does, with its refusals."""
        return self._session.wait(gen, *arguments, **options)


class JobDatabase(DatabaseWrapper):  # type: ignore[misc]  # Django has no types
    """A database of Django on the session of a job, inside its transaction."""

    def __init__(self, session: psycopg.Connection[Any], alias: str) -> None:
        super().__init__({**connections.settings[alias], "AUTOCOMMIT": False, "CONN_HEALTH_CHECKS": False}, alias)
        self._session = session

    def get_connection_params(self) -> dict[str, Any]:
        """Return no parameters: the job has logged in."""
        return {}

    def get_new_connection(self, conn_params: dict[str, Any]) -> JobSession:  # noqa: ARG002 - of Django
        """Return the session of the job."""
        return JobSession(self._session, get_adapters_template(settings.USE_TZ, self.timezone))

    def init_connection_state(self) -> None:
        """Set the time zone that Django expects, until the end of the job."""
        self._configure_timezone(self.connection)

    def _set_autocommit(self, autocommit: bool) -> None:  # noqa: FBT001 - of Django
        pass

    def close(self) -> NoReturn:
        """Refuse: the executor closes the session."""
        raise HandlerMisuse("a handler must not close its connection; the executor does")

    def on_commit(self, func: Callable[[], object], robust: bool = False) -> NoReturn:  # noqa: ARG002, FBT001, FBT002
        """Refuse: the transaction commits after the handler has returned."""
        raise HandlerMisuse("transaction.on_commit has no moment in a job: enqueue a job, or call job.once")


class TenantDatabase(JobDatabase):
    """The same for django-tenants, whose tenant is the job's in each statement: no `search_path` is set."""

    _schema: str | None = None

    def init_connection_state(self) -> None:
        """Select the schema of the job, by which django-tenants also prefixes the keys of caches and paths of files."""
        super().init_connection_state()
        (schema,) = self.connection.execute("SELECT current_schema()").fetchone()
        self.set_schema(schema)
        self._schema = schema

    def set_tenant(self, tenant: Any, include_public: bool = True) -> None:  # noqa: FBT001, FBT002 - of django-tenants
        """Accept the tenant of the job; raises HandlerMisuse for another tenant, and for the public schema."""
        if self._schema not in {None, tenant.schema_name}:
            raise HandlerMisuse(
                f"the job works in the schema {self._schema} alone, and not in {tenant.schema_name}: enqueue a job for"
                " another tenant, and give the job's payload the values of shared tables"
            )
        super().set_tenant(tenant, include_public)

    def _cursor(self, name: str | None = None) -> Any:
        return DatabaseWrapper._cursor(self, name)  # noqa: SLF001 - without the search_path of django-tenants


@cache
def wrapper_class(engine: str) -> type[JobDatabase]:
    """Return the class of a job's database for an engine of Django; raises HandlerMisuse if it is not PostgreSQL."""
    own = import_module(f"{engine}.base").DatabaseWrapper
    if not issubclass(own, DatabaseWrapper):
        raise HandlerMisuse(f"{engine} is not a PostgreSQL backend: give the alias of a PostgreSQL database")
    kind = TenantDatabase if hasattr(own, "set_tenant") else JobDatabase
    return kind if own is DatabaseWrapper else type(kind.__name__, (kind, own), {})
