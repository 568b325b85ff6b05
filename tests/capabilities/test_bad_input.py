"""A capability that is off, incomplete, changed or declared twice is skipped or refused by name; no data is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from psycopg import sql

from tests.capabilities.test_removal import capabilities, fill
from tests.web_in_process import web_of
from turno import capability
from turno.capability import Capability, Command, JobFilter, installed, job_filters
from turno.commands.main import all_commands, main
from turno.errors import InvalidSettings
from turno.maintenance.tasks import MaintenanceFailed
from turno.web.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.installation import ExampleInstallation

OBJECTS = """
SELECT d.objoid::regclass::text, 'table' FROM pg_description d JOIN pg_class c ON c.oid = d.objoid
WHERE d.classoid = 'pg_class'::regclass AND d.description = %(comment)s AND c.relkind IN ('r', 'v')
  AND c.relnamespace = to_regnamespace(%(schema)s)
UNION ALL
SELECT d.objoid::regprocedure::text, 'function' FROM pg_description d JOIN pg_proc p ON p.oid = d.objoid
WHERE d.classoid = 'pg_proc'::regclass AND d.description = %(comment)s AND p.pronamespace = to_regnamespace(%(schema)s)
ORDER BY 1
"""
of_tenants = pytest.mark.parametrize(
    "capability",
    [each for each in installed() if each.folder("sql/tenant/schema") is not None],
    ids=lambda capability: capability.name,
)


@pytest.fixture
def turno(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Run `turno` in this process; returns its status and its output."""
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, list(arguments), prog_name="turno")
        return done.exit_code, done.output

    return run


def objects(example: ExampleInstallation, capability: Capability, schema: str) -> list[tuple[str, str]]:
    example.admin.execute("SET search_path = ''")
    result = example.admin.execute(OBJECTS, {"comment": f"turno/{capability.name}", "schema": schema}).fetchall()
    return [(name, kind) for name, kind in result]


def contents(example: ExampleInstallation, capability: Capability) -> dict[str, int]:
    """Return the number of rows of each table and view of a capability, in the control schema and in one tenant."""
    result = {}
    for schema in ("turno", example.one.schema):
        for name, kind in objects(example, capability, schema):
            if kind == "table":
                (result[name],) = example.admin.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,)  # noqa: S608 - of the catalog
    return result


@capabilities
def test_disabled_its_rows_stay(capability: Capability, example: ExampleInstallation) -> None:
    example.faulty = True
    fill(example.admin, capability.name, "suc0001")
    before = contents(example, capability)
    example.sweep(TURNO_CAPABILITIES=f"all-but-{capability.name}")
    assert contents(example, capability) == before


@of_tenants
def test_capability_missing_in_one_tenant_stops_no_tenant(
    capability: Capability, example: ExampleInstallation, turno: Callable[..., tuple[int, str]]
) -> None:
    example.faulty = True
    broken, whole = example.one, example.tenants["suc0002"]
    fill(example.admin, capability.name, "suc0001", "suc0002")
    before = objects(example, capability, broken.schema)
    for name, kind in before:
        example.admin.execute(f"DROP {kind} IF EXISTS {name} CASCADE")
    ledger = sql.Identifier(broken.schema, "schema_migrations")
    example.admin.execute(sql.SQL("DELETE FROM {} WHERE source = %s").format(ledger), [capability.name])
    kept = {name: rows for name, rows in contents(example, capability).items() if name.startswith("turno.")}
    failed = ""
    try:
        example.sweep()
    except MaintenanceFailed as error:
        failed = str(error)
    assert whole.slug not in failed
    left = {name: rows for name, rows in contents(example, capability).items() if name.startswith("turno.")}
    assert left.keys() == kept.keys()
    status, printed = turno("db", "migrate", "--yes")
    assert status == 0, printed
    assert objects(example, capability, broken.schema) == before
    example.rows("DELETE FROM turno.tenant_failures")
    example.sweep()


@of_tenants
def test_a_database_of_an_older_commit_is_refused_by_name(
    capability: Capability, example: ExampleInstallation, turno: Callable[..., tuple[int, str]]
) -> None:
    fill(example.admin, capability.name, "suc0001")
    before = contents(example, capability)
    ledger = sql.Identifier(example.one.schema, "schema_migrations")
    of_step = " SET checksum = %s FROM (SELECT * FROM {0} WHERE source = %s AND version = 1) AS old"
    of_step += " WHERE l.source = old.source AND l.version = old.version RETURNING old.checksum"
    change = sql.SQL("UPDATE {0} AS l" + of_step).format(ledger)
    (checksum,) = example.admin.execute(change, ["another", capability.name]).fetchone() or ("",)
    try:
        status, printed = turno("db", "migrate", "--yes")
        assert status == 1
        assert f"version {capability.name}/0001 was changed after it was applied here" in printed
        assert contents(example, capability) == before
    finally:
        example.admin.execute(change, [checksum, capability.name])


FIRST, SECOND = (Routes(name, __name__, tag="gauges") for name in ("gauges", "widgets"))
for blueprint in (FIRST, SECOND):

    @blueprint.operation("GET /api/gauges", everybody=True)
    def gauges() -> None:
        """List the gauges."""


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install two capabilities with these fields."""

    def install(**fields: tuple[Any, Any]) -> None:
        result = tuple(
            Capability(name=name, **{field: values[number] for field, values in fields.items()})
            for number, name in enumerate(("gauges", "widgets"))
        )
        monkeypatch.setattr(capability, "installed", lambda: result)

    return install


def test_two_capabilities_with_one_command_are_refused(declared: Callable[..., None]) -> None:
    declared(commands=({"gauge": Command("a:b", "One.")}, {"gauge": Command("c:d", "Another.")}))
    with pytest.raises(InvalidSettings, match="the command gauge is declared twice; rename it in one turno/capab"):
        all_commands()


def test_two_capabilities_with_one_route_are_refused(
    example: ExampleInstallation, declared: Callable[..., None]
) -> None:
    declared(routes=((f"{__name__}:FIRST",), (f"{__name__}:SECOND",)))
    with (
        pytest.raises(InvalidSettings, match="the route GET /api/gauges is declared twice; rename it"),
        web_of(example),
    ):
        pass
    declared(routes=((f"{__name__}:FIRST",), (f"{__name__}:FIRST",)))
    with pytest.raises(InvalidSettings, match="the blueprint gauges is declared twice; rename it"), web_of(example):
        pass


def test_two_capabilities_with_one_filter_are_refused(declared: Callable[..., None]) -> None:
    job_filter = JobFilter("Help.", "true", "true")
    declared(job_filters=({"colour": job_filter}, {"colour": job_filter}))
    with pytest.raises(InvalidSettings, match="the job filter colour is declared twice; rename it"):
        job_filters()
