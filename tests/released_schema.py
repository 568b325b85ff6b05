"""What processes of the last release use; `python -m tests.released_schema` writes it down for the next one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql

from tests.integration.tenancy.migrations.place import KEY, PACKAGED
from turno.servers.embedded_postgres import Cluster
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.schema_migrations.files import Migrations

if TYPE_CHECKING:
    from collections.abc import Iterator

LIST = Path(__file__).parent / "integration" / "tenancy" / "migrations" / "released_schema.txt"
FUNCTIONS = """
SELECT 'function', %(part)s, p.proname, pg_get_function_result(p.oid), pg_get_function_arguments(p.oid)
FROM pg_catalog.pg_proc p
WHERE p.pronamespace = %(schema)s::regnamespace AND p.proname = ANY (%(names)s)
"""
COLUMNS = """
SELECT 'column', %(part)s, c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod), ''
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relname = ANY (%(names)s)
"""


class Used(NamedTuple):
    """A function as its callers see it, or a column; part is control or tenant, and a column has no arguments."""

    kind: str
    part: str
    name: str
    type: str
    arguments: str

    def serves(self, before: Used) -> bool:
        """Whether whoever uses `before` can use this one: a function may take more that need not be given."""
        more = self.arguments.removeprefix(before.arguments).removeprefix(", ")
        return (
            self[:4] == before[:4]
            and self.arguments.startswith(before.arguments)
            and all(" DEFAULT " in argument for argument in more.split(", ") if more)
        )


def used(admin: psycopg.Connection[Any], tenant_schema: str) -> set[Used]:
    """Return what any login but the owner may use: a process, or the functions of a schema that is not yet migrated."""
    found = set()
    for part, schema, matrix in (("control", "turno", CONTROL), ("tenant", tenant_schema, TENANT)):
        readable = {name for name, rights in matrix.relations.items() if rights} | {name for name, _ in matrix.columns}
        with psycopg.ClientCursor(admin) as cursor, admin.transaction():
            cursor.execute(sql.SQL("SET LOCAL search_path = {}, turno").format(sql.Identifier(schema)))
            for query, names in ((FUNCTIONS, matrix.functions), (COLUMNS, readable)):
                rows = cursor.execute(query, {"part": part, "schema": schema, "names": list(names)})
                found |= {Used(*row) for row in rows}
    return found


def released() -> set[Used]:
    """Return what stood in the last release."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {Used(*line.split("\t")) for line in lines if not line.startswith("#")}


def written(found: set[Used]) -> Iterator[str]:
    """The list's lines."""
    steps = Migrations.read(PACKAGED)
    yield "# Written by `python -m tests.released_schema` when a release is made: docs/upgrading.md."
    yield f"# The schemas' versions were: control {max(steps.control.steps)}, tenant {max(steps.tenant.steps)}."
    for one in sorted(found):
        yield "\t".join(one)


def main() -> None:
    """Install into a server of its own, and write the list."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(data=Path(folder) / "data", durable=False) as cluster,
        psycopg.connect(cluster.url_of("postgres"), autocommit=True) as admin,
    ):
        logins = Logins(cluster.url_of("postgres"), KEY)
        install(admin, logins)
        add_company(admin, logins, "acme", "Acme")
        tenant = add_tenant(admin, logins, "suc0001", "acme", migrations=Migrations.read(PACKAGED))
        LIST.write_text("\n".join(written(used(admin, tenant.schema))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
