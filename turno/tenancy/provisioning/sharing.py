"""Look-up schemas of the application that the handlers of every tenant may read."""

from collections.abc import Sequence
from typing import Any

from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import Membership, ensure_memberships
from turno.tenancy.provisioning.adoption import NAME, CannotAdopt
from turno.tenancy.rights.schemas import shared_schemas


def share_schemas(admin: Connection[Any], logins: Logins, wanted: Sequence[str]) -> None:
    """Let every handler read these schemas and no others, through one group; inside the caller's transaction.

    A group, because the rights of thousands of handlers by name do not fit into a table's row of the catalog.
    """
    now = shared_schemas(admin, logins)
    for name in sorted(set(wanted) - set(now)):
        _check(admin, name)
    for name in sorted(set(now) - set(wanted)):
        _change(admin, logins, name, "REVOKE", "FROM")
    for name in sorted(wanted):
        _change(admin, logins, name, "GRANT", "TO")
    _join(admin, logins, sharing=bool(wanted))


def _check(admin: Connection[Any], name: str) -> None:
    if not NAME.fullmatch(name) or not admin.execute("SELECT FROM pg_namespace WHERE nspname = %s", [name]).rowcount:
        raise CannotAdopt(
            f"SHARED_SCHEMAS names {name!r}, and there is no such schema; correct it, or create the schema"
        )
    taken = admin.execute(
        "SELECT slug FROM turno.tenants WHERE adopted_schema = %s AND state <> 'removed'", [name]
    ).fetchone()
    if taken:
        raise CannotAdopt(f"SHARED_SCHEMAS names {name}, which is the schema of the tenant {taken[0]}: leave it out")


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
