"""Look-up schemas of the application that the handlers of every tenant may read."""

from collections.abc import Iterable, Sequence
from typing import Any

from psycopg import Connection, sql

from turno.capabilities.adoption.adopting import NAME, CannotAdopt
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import Membership, ensure_memberships
from turno.tenancy.rights.schemas import shared_schemas
from turno.tenancy.schema_migrations.locks import lock_roles


def share(admin: Connection[Any], logins: Logins, names: Sequence[str]) -> None:
    """Let every handler read these schemas, through one group, with the tables that the present owners create later.

    A group, because the rights of thousands of handlers by name do not fit into a table's row of the catalog.
    """
    with admin.transaction():
        lock_roles(admin)
        for name in names:
            _check(admin, name)
            _change(admin, logins, name, "GRANT", "TO")
        _join(admin, logins, sharing=bool(shared_schemas(admin, logins.handlers)))


def unshare(admin: Connection[Any], logins: Logins, names: Iterable[str]) -> None:
    """Revoke from the handlers the right to read these schemas; a schema that is not shared is no error."""
    with admin.transaction():
        lock_roles(admin)
        for name in sorted({*names} & {*shared_schemas(admin, logins.handlers)}):
            _change(admin, logins, name, "REVOKE", "FROM")
        _join(admin, logins, sharing=bool(shared_schemas(admin, logins.handlers)))


def _check(admin: Connection[Any], name: str) -> None:
    if not NAME.fullmatch(name) or not admin.execute("SELECT FROM pg_namespace WHERE nspname = %s", [name]).rowcount:
        raise CannotAdopt(f"there is no schema {name!r} to share; correct its name, or create it")
    taken = admin.execute(
        "SELECT slug FROM turno.tenants WHERE adopted_schema = %s AND state <> 'removed'", [name]
    ).fetchone()
    if taken:
        raise CannotAdopt(f"the schema {name} belongs to the tenant {taken[0]} and cannot be shared; leave it out")


_OWNERS = """
SELECT DISTINCT pg_get_userbyid(o) FROM (
    SELECT nspowner AS o FROM pg_catalog.pg_namespace WHERE nspname = %(name)s
    UNION
    SELECT c.relowner FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %(name)s) AS owners
"""


def _change(admin: Connection[Any], logins: Logins, name: str, verb: str, preposition: str) -> None:
    schema, group = sql.Identifier(name), sql.Identifier(logins.handlers)
    to = sql.SQL(preposition)
    admin.execute(sql.SQL("{} USAGE ON SCHEMA {} {} {}").format(sql.SQL(verb), schema, to, group))
    admin.execute(sql.SQL("{} SELECT ON ALL TABLES IN SCHEMA {} {} {}").format(sql.SQL(verb), schema, to, group))
    for (owner,) in admin.execute(_OWNERS, {"name": name}).fetchall():
        admin.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} {} SELECT ON TABLES {} {}").format(
                sql.Identifier(owner), schema, sql.SQL(verb), to, group
            )
        )


def _join(admin: Connection[Any], logins: Logins, *, sharing: bool) -> None:
    rows = admin.execute(
        """
        SELECT r.rolname FROM pg_catalog.pg_roles r
        JOIN turno.tenants n ON n.handler_role = r.rolname AND n.state <> 'removed'
        WHERE EXISTS (SELECT FROM pg_catalog.pg_auth_members m
                      WHERE m.member = r.oid AND m.roleid = to_regrole(%s)) <> %s
        """,
        [logins.handlers, sharing],
    ).fetchall()
    if sharing:
        ensure_memberships(admin, (Membership(logins.handlers, handler, inherits=True) for (handler,) in rows))
        return
    for (handler,) in rows:
        admin.execute(sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(logins.handlers), sql.Identifier(handler)))
