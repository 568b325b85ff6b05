"""Remove Turno from a database: every tenant, the control schema and its roles; PUBLIC gets back what it lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import drop_roles, existing_roles, grant_to_provisioner
from turno.tenancy.provisioning.removal import remove_tenant, what_goes
from turno.tenancy.provisioning.sharing import share_schemas
from turno.tenancy.rights.host_rights import PublicRights, group_rights
from turno.tenancy.rights.public_rights import execute_if_allowed
from turno.tenancy.rights.schemas import CONTROL_SCHEMA
from turno.tenancy.schema_migrations.locks import lock_roles

LEDGERS = ("schema_migrations", "schema_functions", "application_migrations")


class StillInUse(RuntimeError):
    """Turno cannot be removed yet; the message says what uses it."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What an uninstallation would find: who is at work, tenants whose own schemas hold rows, and open jobs."""

    workers: int
    sessions: tuple[str, ...]
    open_jobs: int
    adopted: tuple[str, ...]
    holding_data: tuple[str, ...]
    public: PublicRights
    lines: tuple[str, ...]

    @classmethod
    def of(cls, admin: Connection[Any], logins: Logins) -> Self:
        """Read what is there; nothing is changed."""
        if not _installed(admin):
            lines = what_goes(admin, _all_roles(admin, logins))
            return cls(0, (), 0, (), (), group_rights(admin, logins), tuple(lines))
        (counts,) = admin.execute(
            "SELECT (SELECT count(*) FROM turno.workers WHERE alive_at > clock_timestamp() - interval '2 minutes'),"
            " (SELECT count(*) FROM turno.tickets)"
        )
        tenants = admin.execute(
            "SELECT slug, schema, adopted_schema FROM turno.tenants WHERE state <> 'removed' ORDER BY slug"
        ).fetchall()
        own = [(slug, schema) for slug, schema, adopted in tenants if adopted is None]
        return cls(
            workers=counts[0],
            sessions=_sessions(admin, logins),
            open_jobs=counts[1],
            adopted=tuple(adopted for _, _, adopted in tenants if adopted is not None),
            holding_data=tuple(slug for slug, schema in own if _holds_data(admin, schema)),
            public=group_rights(admin, logins),
            lines=tuple(what_goes(admin, _all_roles(admin, logins))),
        )

    @property
    def sentences(self) -> Iterator[str]:
        """The plan in words."""
        if self.workers or self.sessions:
            named = ", ".join(self.sessions) or "none"
            yield f"stop web and workers first: {self.workers} workers are alive, sessions are open: {named}"
        if self.holding_data:
            names = ", ".join(self.holding_data[:10]) + (" …" if len(self.holding_data) > 10 else "")  # noqa: PLR2004
            yield f"{len(self.holding_data)} tenants' own schemas hold data, which --drop-tenants drops: {names}"
        if self.open_jobs:
            yield f"{self.open_jobs} jobs are waiting or running and will never run"
        for name in self.adopted:
            yield f"the schema {name} stays with everything that is the application's"
        if self.public:
            count = len(self.public.functions)
            words = ", ".join((*self.public.database, *(f"{word} on the schema public" for word in self.public.schema)))
            yield f"PUBLIC gets back: {words}, EXECUTE on {count} functions"
        yield f"{len(self.lines)} objects, rights and roles of Turno go" if self.lines else "nothing of Turno is here"

    def check(self, *, drop_tenants: bool) -> None:
        """Raise StillInUse while workers live, or where data of tenants would go without a word."""
        if self.workers:
            raise StillInUse(f"{self.workers} workers are alive: stop them, or wait two minutes after they were killed")
        if self.sessions:
            raise StillInUse(
                f"sessions of Turno are open ({', '.join(self.sessions)}): stop the web and the workers first"
            )
        if self.holding_data and not drop_tenants:
            raise StillInUse(
                f"the tenants {', '.join(self.holding_data)} hold data in schemas of Turno: back them up, then "
                "repeat this with --drop-tenants"
            )


def uninstall(admin: Connection[Any], logins: Logins, *, drop_tenants: bool = False) -> None:
    """Remove all of Turno; repeat it if it was stopped half-way. Raises StillInUse, having changed nothing.

    `admin` is idle. One transaction for each tenant, then one for the rest: thousands of tenants have more tables than
    the server can lock at a time.
    """
    Removal.of(admin, logins).check(drop_tenants=drop_tenants)
    if _installed(admin):
        for (slug,) in admin.execute("SELECT slug FROM turno.tenants ORDER BY id").fetchall():
            remove_tenant(admin, logins, slug)
    with admin.transaction():
        lock_roles(admin)
        if _installed(admin):
            share_schemas(admin, logins, ())
        for statement in group_rights(admin, logins).statements(admin.info.dbname, None):
            execute_if_allowed(admin, statement)
        roles = _all_roles(admin, logins)
        for role in existing_roles(admin, roles):
            grant_to_provisioner(admin, role)
        admin.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(CONTROL_SCHEMA)))
        drop_roles(admin, roles)


def _installed(admin: Connection[Any]) -> bool:
    return bool(admin.execute("SELECT to_regclass('turno.tenants') IS NOT NULL").fetchone() == (True,))


def _sessions(admin: Connection[Any], logins: Logins) -> tuple[str, ...]:
    rows = admin.execute(
        "SELECT DISTINCT application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND starts_with(usename, %s) ORDER BY 1",
        [logins.role("")],
    )
    return tuple(name for (name,) in rows)


def _all_roles(admin: Connection[Any], logins: Logins) -> list[str]:
    rows = admin.execute(
        "SELECT rolname FROM pg_catalog.pg_roles WHERE starts_with(rolname, %s) ORDER BY 1", [logins.role("")]
    )
    return [name for (name,) in rows]


def _holds_data(admin: Connection[Any], schema: str) -> bool:
    rows = admin.execute(
        """
        SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND c.relname <> ALL (%s)
        """,
        [schema, list(LEDGERS)],
    ).fetchall()
    some = sql.SQL("SELECT FROM {} LIMIT 1")
    return any(admin.execute(some.format(sql.Identifier(schema, table))).rowcount for (table,) in rows)
