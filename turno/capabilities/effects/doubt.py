"""Mark the record of outside effects of a tenant as older than the effects themselves, as after a restore."""

from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, sql

from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.schema_migrations.locks import limit_lock_wait


class Doubt(NamedTuple):
    """The tenants that were changed, and the error of each tenant that could not be changed, by slug."""

    changed: list[str]
    troubles: dict[str, str]


def set_doubt(admin: Connection[Any], slug: str | None, *, doubt: bool) -> Doubt:
    """Have effects without a record looked up before they are issued, or trust the record again.

    For one tenant, or with None for every active one; a tenant that fails stops no other. Raises UnknownTenant.
    """
    with admin.transaction():
        rows = admin.execute(
            "SELECT slug, schema, owner_role FROM turno.tenants"
            " WHERE state = 'active' AND (%(slug)s::text IS NULL OR slug = %(slug)s) ORDER BY slug",
            {"slug": slug},
        ).fetchall()
        if slug is not None and not rows:
            raise UnknownTenant(slug)
    found = Doubt([], {})
    for tenant, schema, owner in rows:
        try:
            with admin.transaction():
                limit_lock_wait(admin)
                _set(admin, schema, owner, doubt=doubt)
        except psycopg.Error as error:
            if admin.broken:
                raise
            found.troubles[tenant] = str(error).strip().partition("\n")[0]
        else:
            found.changed.append(tenant)
    return found


def _set(admin: Connection[Any], schema: str, owner: str, *, doubt: bool) -> None:
    table = sql.Identifier(schema, "external_doubt")
    admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))
    admin.execute(sql.SQL("DELETE FROM {}").format(table))
    if doubt:
        admin.execute(sql.SQL("INSERT INTO {} DEFAULT VALUES").format(table))
    act = "effects in doubt" if doubt else "effects trusted"
    admin.execute("INSERT INTO turno.operator_acts (action) VALUES (%s)", [act])
