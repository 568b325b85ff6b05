"""Connect as exactly one role: a tenant's handler, the engine, or the web as a tenant's API role."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, LiteralString, Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import Params
from psycopg.rows import TupleRow, dict_row

from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.function_names import with_own_names
from turno.tenancy.identity.logins import Logins, pinned_by_version
from turno.tenancy.identity.tenant import HandlerLogin, Tenant

log = logging.getLogger(__name__)

# Milliseconds. A handler's statements may be long; a session that holds locks for other sessions must not wait.
HANDLER_TIMEOUTS = {"lock_timeout": "10000", "idle_in_transaction_session_timeout": "0", "statement_timeout": "0"}
SERVICE_TIMEOUTS = {
    "lock_timeout": "5000",
    "idle_in_transaction_session_timeout": "15000",
    "statement_timeout": "30000",
}
# A request holds a thread that other requests need: the client repeats a request that met a lock.
WEB_TIMEOUTS = SERVICE_TIMEOUTS | {"lock_timeout": "300"}
COMMAND_LOCK_TIMEOUT = "1000"
CONNECT_TIMEOUT = 10
# libpq reports no SQLSTATE of a failed login. The severity and two spaces precede an error of the server; other errors
# are libpq's own, such as a lost connection, or a standby in a URL of several hosts. Some errors of the server concern
# its own state. A server with lc_messages other than English words these differently: they count as a refused login.
FULL = re.compile("too many (connections|clients)|remaining connection slots are reserved")
REFUSED = re.compile(
    r"failed: [^\n:]+:  (?!the database system is |terminating connection|canceling |could not |out of |database \")"
)
C = TypeVar("C", bound=psycopg.Connection[Any])


class NotConfined(Exception):
    """The session could reach beyond one tenant: it is a superuser, bypasses row security, or is member of a role."""

    def __init__(self, role: str) -> None:
        super().__init__(f"the session of {role} is not confined to one tenant; run `turno db check`")


class LoginRefused(psycopg.OperationalError):
    """The server refused this tenant's login; `turno tenant reset-login` mends a changed password."""


class StartupOptionsLost(psycopg.OperationalError):
    """The session has none of its startup options, on which isolation and durability depend."""

    def __init__(self, role: str) -> None:
        super().__init__(
            f"the session of {role} lost its startup options: a pooler drops them, as PgBouncer does with"
            " ignore_startup_parameters = options; name the server itself in DATABASE_URL"
        )


def unlocked(logins: Logins, login: HandlerLogin, *, application: str, server_version: int = 0) -> HandlerLogin:
    """Return a tenant's login with its password, and without a key to another password."""
    conninfo = logins.conninfo(
        login.role,
        epoch=login.epoch,
        search_path=login.search_path,
        application=application,
        timeouts=HANDLER_TIMEOUTS | pinned_by_version(server_version),
    )
    return replace(login, conninfo=conninfo)


def open_session(login: HandlerLogin, *, kind: type[C]) -> C:
    """Log in as a tenant's handler role, in autocommit, and prove that the session is confined to it.

    Raises LoginRefused, NotConfined if the role could do more than it should, or TooManyConnections if the server, the
    database or the role has no place left; any other psycopg.OperationalError is about the server, independent of the
    login.
    """
    try:
        connection = kind.connect(login.conninfo, autocommit=True, connect_timeout=CONNECT_TIMEOUT)
    except psycopg.OperationalError as error:
        text = f"{login.slug}: {str(error).strip()}"
        if FULL.search(text):
            raise psycopg.errors.TooManyConnections(text) from error
        # Before a server requests the password, it reports nothing about the login.
        if error.pgconn is not None and error.pgconn.used_password and REFUSED.search(text):
            raise LoginRefused(text) from error
        raise psycopg.OperationalError(text) from error
    try:
        assert_confined(connection, login.role)
        assert_pinned(connection, login.role)
    except BaseException:
        psycopg.Connection.close(connection)
        raise
    return connection


def handler_session(
    logins: Logins, login: HandlerLogin, *, application: str, kind: type[C], server_version: int = 0
) -> C:
    """Unlock a tenant's login and open a session with it, in a process that has the master key."""
    return open_session(unlocked(logins, login, application=application, server_version=server_version), kind=kind)


# A handler may be in the group that reads shared look-up schemas, and in a group that reads its parent's data; these
# groups are in no group.
CONFINED: LiteralString = """
WITH groups AS (
    SELECT g.oid, g.rolname = regexp_replace(session_user, '_r_[0-9a-f]{12}$', '_handlers') AS shares,
           g.rolname ~ regexp_replace(session_user, '^(.*)_r_[0-9a-f]{12}$', '^\\1_p_[0-9a-f]{12}$') AS reads
    FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
    WHERE r.rolname = session_user
)
SELECT session_user, current_user = session_user AND NOT r.rolsuper AND NOT r.rolbypassrls
       AND NOT EXISTS (SELECT FROM groups WHERE NOT shares AND NOT reads)
       AND NOT EXISTS (SELECT FROM groups JOIN pg_auth_members m ON m.member = groups.oid)
       AND (SELECT count(*) <= 1 FROM groups WHERE reads)
FROM pg_roles r WHERE r.rolname = session_user
"""


def assert_confined(connection: psycopg.Connection[TupleRow], role: str) -> None:
    """Raise NotConfined unless this is `role`, in no group but two that read, and has no power over row security."""
    if connection.execute(CONFINED).fetchone() != (role, True):
        raise NotConfined(role)


def assert_pinned(connection: psycopg.Connection[Any], role: str) -> None:
    """Raise StartupOptionsLost unless the session got its startup options."""
    row = connection.execute("SELECT current_setting('turno.pinned', true)").fetchone()
    if row is None or row[0] != "on":
        raise StartupOptionsLost(role)


def service_session(logins: Logins, role: str, *, application: str) -> TimeoutConnection:
    """Log in as one of the installation's service roles (engine, web, operator), in autocommit."""
    conninfo = logins.conninfo(role, search_path="turno,pg_temp", application=application, timeouts=SERVICE_TIMEOUTS)
    connection = TimeoutConnection.connect(conninfo, autocommit=True, connect_timeout=CONNECT_TIMEOUT)
    connection.add_notice_handler(_log_warning)
    try:
        assert_pinned(connection, role)
    except BaseException:
        connection.close()
        raise
    return connection


def _log_warning(notice: psycopg.errors.Diagnostic) -> None:
    if notice.severity_nonlocalized == "WARNING":
        log.warning("the database warns: %s", notice.message_primary, extra={"alert": "database"})


class ApiCursor(psycopg.Cursor[dict[str, Any]]):
    """A cursor of one tenant: a statement calls a function of the tenant's as `{}.function(`."""

    schema: str

    def execute(self, query: Any, params: Params | None = None, **options: Any) -> Self:
        """Execute a statement, in which a tenant's function has its own name."""
        if isinstance(query, str) and "{}." in query:
            query = with_own_names(query, self.schema).replace("{}.", f"{self.schema}.")
        return super().execute(query, params, **options)


@contextmanager
def as_api(connection: psycopg.Connection[Any], tenant: Tenant) -> Iterator[ApiCursor]:
    """Run one transaction of fixed SQL as the tenant's API role; rows come as dicts.

    The role and the path are local to the transaction. SQL of a caller's choosing must never run here:
    it could set another role. The connection must be in autocommit, outside a transaction.
    """
    with ApiCursor(connection, row_factory=dict_row) as cursor:
        cursor.schema = tenant.schema
        try:
            cursor.execute(_begun(tenant.api_role, tenant.schema), prepare=False)
            yield cursor
        except BaseException:
            if not connection.closed:
                connection.rollback()
            raise
        connection.commit()


def call_as_api(
    connection: psycopg.Connection[Any], tenant: Tenant, statement: LiteralString, parameters: Sequence[Any]
) -> dict[str, Any]:
    """Run one statement as the tenant's API role in a separate transaction; one network round trip.

    `statement` calls a function of the tenant's as `{}.function`. Returns its one row. A lock is waited for
    COMMAND_LOCK_TIMEOUT milliseconds. The connection must be in autocommit.
    """
    with connection.cursor(row_factory=dict_row) as cursor, connection.cursor() as control:
        try:
            with connection.pipeline():
                # Left to the pipeline's sync, a refused commit would be an error that psycopg does not expect there.
                control.execute("BEGIN")
                control.execute(
                    "SELECT set_config('role', %s, true), set_config('lock_timeout', %s, true)",
                    (tenant.api_role, COMMAND_LOCK_TIMEOUT),
                )
                cursor.execute(qualified_statement(statement, tenant.schema), parameters)
                control.execute("COMMIT")
        except psycopg.Error:
            if not connection.closed:
                connection.rollback()
            raise
        row = cursor.fetchone()
        assert row is not None, "fixed statements return a row"  # noqa: S101
        return row


def call_as_web(
    connection: psycopg.Connection[Any], tenant: Tenant, statement: LiteralString, parameters: Sequence[Any]
) -> dict[str, Any]:
    """Run one statement as the web's own role, in autocommit, and return its one row.

    `statement` calls, as `{}.function`, a function of the tenant's that the web's role may call.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(qualified_statement(statement, tenant.schema), parameters).fetchone()
    assert row is not None, "fixed statements return a row"  # noqa: S101
    return row


@lru_cache(maxsize=4096)
def _begun(role: str, schema: str) -> bytes:
    statements = "BEGIN; SET LOCAL ROLE {}; SET LOCAL search_path = {}, pg_temp"
    return sql.SQL(statements).format(sql.Identifier(role), sql.Identifier(schema)).as_bytes()


# Qualified names: with a search path for each tenant, the server would plan each call again.
@lru_cache(maxsize=4096)
def qualified_statement(statement: LiteralString, schema: str) -> bytes:
    """Return a statement with `{}` or `{0}` as the tenant's schema, and its functions under their own names."""
    return sql.SQL(with_own_names(statement, schema)).format(sql.Identifier(schema)).as_bytes()
