"""Whether a tenant's record of outside effects may be older than the world outside, as after a restore."""

from typing import Any

from psycopg import Connection, sql

from turno.tenancy.identity.directory import UnknownTenant

_ON_RECORD = """
INSERT INTO turno.operator_audit (actor, action, tenant_id)
VALUES (coalesce(nullif(current_setting('turno.actor', true), ''), session_user), %s, turno.tenant_of(current_user))
"""


def set_doubt(admin: Connection[Any], slug: str | None, *, doubt: bool) -> list[str]:
    """Have effects without a record looked up before they are issued, or trust the record again.

    For one tenant, or with None for every active one; returns their slugs. Raises UnknownTenant.
    """
    with admin.transaction():
        rows = admin.execute(
            "SELECT slug, schema, owner_role FROM turno.tenants"
            " WHERE state = 'active' AND (%(slug)s::text IS NULL OR slug = %(slug)s) ORDER BY slug",
            {"slug": slug},
        ).fetchall()
        if slug is not None and not rows:
            raise UnknownTenant(slug)
    for _, schema, owner in rows:
        table = sql.Identifier(schema, "external_doubt")
        with admin.transaction():
            admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))
            admin.execute(sql.SQL("DELETE FROM {}").format(table))
            if doubt:
                admin.execute(sql.SQL("INSERT INTO {} DEFAULT VALUES").format(table))
            admin.execute(_ON_RECORD, ["effects in doubt" if doubt else "effects trusted"])
    return [found for found, _, _ in rows]
