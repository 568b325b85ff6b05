"""Remove Turno from a database: all tenants, the control schema and the roles; PUBLIC gets back its rights."""

from collections.abc import Iterator
from typing import Any

from psycopg import Connection, sql

from turno.capabilities.adoption.sharing import unshare
from turno.errors import TurnoError
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import drop_roles, existing_roles, grant_to_provisioner
from turno.tenancy.provisioning.removal import remove_tenant, what_goes
from turno.tenancy.rights.live import PUBLIC
from turno.tenancy.rights.public_rights import grant_each, group_rights
from turno.tenancy.rights.schemas import CONTROL_SCHEMA, shared_schemas
from turno.tenancy.schema_migrations.locks import lock_roles

LEDGER = "schema_migrations"


class StillInUse(TurnoError):
    """Turno cannot be removed yet; the message names the obstacle and the remedy."""


def plan_removal(admin: Connection[Any], logins: Logins) -> list[str]:
    """Return a line for each object, right and role that `uninstall` drops, and the rest that stays; change nothing."""
    lines = what_goes(admin, _all_roles(admin, logins))
    lines += [f"{right.as_string(admin)} TO {PUBLIC}" for right in group_rights(admin, logins)]
    if _installed(admin):
        adopted = admin.execute(
            "SELECT adopted_schema FROM turno.tenants"
            " WHERE adopted_schema IS NOT NULL AND state <> 'removed' ORDER BY 1"
        )
        lines += [f"keep schema {name} with everything that is the application's" for (name,) in adopted]
    return lines


def count_open_jobs(admin: Connection[Any]) -> int:
    """Return how many jobs wait or run."""
    if not _installed(admin):
        return 0
    (row,) = admin.execute("SELECT count(*) FROM turno.tickets")
    return int(row[0])


def obstacles(admin: Connection[Any], logins: Logins, *, drop_tenants: bool = False) -> Iterator[str]:
    """Yield the reasons for which `uninstall` refuses: live workers, open sessions, data in tenants' own schemas."""
    if not _installed(admin):
        return
    (workers,) = admin.execute(
        "SELECT count(*) FROM turno.workers WHERE alive_at > clock_timestamp() - interval '2 minutes'"
    )
    if workers[0]:
        yield f"live workers: {workers[0]}; stop them, or wait two minutes after they were killed"
    sessions = admin.execute(
        "SELECT DISTINCT application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND starts_with(usename, %s) ORDER BY 1",
        [logins.role("")],
    ).fetchall()
    if sessions:
        names = ", ".join(name for (name,) in sessions)
        yield f"sessions of Turno are open ({names}): stop the web and the workers first"
    own = admin.execute(
        "SELECT slug, schema FROM turno.tenants WHERE state <> 'removed' AND adopted_schema IS NULL ORDER BY slug"
    ).fetchall()
    holding = [] if drop_tenants else [slug for slug, schema in own if _holds_data(admin, schema)]
    if holding:
        yield (
            f"the tenants {', '.join(holding)} hold data in schemas of Turno: back them up, then "
            "repeat this with --drop-tenants"
        )


def uninstall(admin: Connection[Any], logins: Logins, *, drop_tenants: bool = False) -> None:
    """Remove Turno; a second call continues after an interruption. Raises StillInUse before the first change.

    `admin` is idle. One transaction for each tenant, then a last transaction: the server cannot lock the tables of
    thousands of tenants together.
    """
    for obstacle in obstacles(admin, logins, drop_tenants=drop_tenants):
        raise StillInUse(obstacle)
    if _installed(admin):
        for (slug,) in admin.execute("SELECT slug FROM turno.tenants ORDER BY id").fetchall():
            remove_tenant(admin, logins, slug)
    with admin.transaction():
        lock_roles(admin)
        if _installed(admin):
            unshare(admin, logins, shared_schemas(admin, logins.handlers))
        grant_each(admin, group_rights(admin, logins), PUBLIC)
        roles = _all_roles(admin, logins)
        for role in existing_roles(admin, [logins.control]):
            grant_to_provisioner(admin, role)
        admin.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(CONTROL_SCHEMA)))
        drop_roles(admin, roles)


def _installed(admin: Connection[Any]) -> bool:
    return bool(admin.execute("SELECT to_regclass('turno.tenants') IS NOT NULL").fetchone() == (True,))


def _all_roles(admin: Connection[Any], logins: Logins) -> list[str]:
    rows = admin.execute(
        "SELECT rolname FROM pg_catalog.pg_roles WHERE starts_with(rolname, %s) ORDER BY 1", [logins.role("")]
    )
    return [name for (name,) in rows]


def _holds_data(admin: Connection[Any], schema: str) -> bool:
    rows = admin.execute(
        """
        SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND c.relname <> %s
        """,
        [schema, LEDGER],
    ).fetchall()
    some = sql.SQL("SELECT FROM {} LIMIT 1")
    return any(admin.execute(some.format(sql.Identifier(schema, table))).rowcount for (table,) in rows)
