"""What processes of the last release call; `python -m tests.released_functions` writes it down for the next one."""

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

LIST = Path(__file__).parent / "integration" / "tenancy" / "migrations" / "released_functions.txt"
SIGNATURES = """
SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
FROM pg_catalog.pg_proc p
WHERE p.pronamespace = %s::regnamespace AND p.proname = ANY (%s)
"""


class Function(NamedTuple):
    """A function as its callers see it, beginning with the part that it is in: control or tenant."""

    part: str
    name: str
    arguments: str
    result: str

    def serves(self, before: Function) -> bool:
        """Whether every call of `before` reaches this one: what it takes more need not be given."""
        more = self.arguments.removeprefix(before.arguments).removeprefix(", ")
        return (
            (self.part, self.name, self.result) == (before.part, before.name, before.result)
            and self.arguments.startswith(before.arguments)
            and all(" DEFAULT " in argument for argument in more.split(", ") if more)
        )


def functions(admin: psycopg.Connection[Any], tenant_schema: str) -> set[Function]:
    """Return what any login but the owner may call: by a process, or by the functions of a schema not yet migrated."""
    found = set()
    for part, schema, matrix in (("control", "turno", CONTROL), ("tenant", tenant_schema, TENANT)):
        with psycopg.ClientCursor(admin) as cursor, admin.transaction():
            cursor.execute(sql.SQL("SET LOCAL search_path = {}, turno").format(sql.Identifier(schema)))
            rows = cursor.execute(SIGNATURES, (schema, list(matrix.functions)))
            found |= {Function(part, *row) for row in rows}
    return found


def released() -> set[Function]:
    """Return what stood in the last release."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {Function(*line.split("\t")) for line in lines if not line.startswith("#")}


def written(found: set[Function]) -> Iterator[str]:
    """The list's lines."""
    steps = Migrations.read(PACKAGED)
    yield "# Written by `python -m tests.released_functions` when a release is made: docs/upgrading.md."
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
        LIST.write_text("\n".join(written(functions(admin, tenant.schema))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
