"""The application's own migrations, in each tenant's schema."""

import pytest

from tests.integration.tenancy.migrations.migrated_installation import SLUGS, MigratedInstallation
from turno.tenancy.catalog import check
from turno.tenancy.provisioning.provision import add_tenant
from turno.tenancy.schema_migrations.all_schemas import failed


@pytest.fixture
def applied(installation: MigratedInstallation) -> MigratedInstallation:
    """An application with a table and a view in each tenant."""
    (installation.folder / "application").mkdir()
    installation.write(
        "application/0001_stock.sql", "CREATE TABLE stock (id integer); CREATE VIEW shown AS SELECT id FROM stock"
    )
    installation.write("application/0001_stock.down.sql", "DROP VIEW shown; DROP TABLE stock")
    assert [outcome.done for outcome in installation.migrate()] == [("0001",)] * 3
    return installation


def test_an_application_s_tables_have_a_ledger_of_their_own(applied: MigratedInstallation) -> None:
    assert applied.migrate() == []
    assert applied.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)
    assert applied.application_versions() == dict.fromkeys(SLUGS, 1)
    assert check(applied.admin, applied.logins) == []
    added = add_tenant(applied.admin, applied.logins, "suc0004", "acme", migrations=applied.migrations)
    assert applied.in_schema(added, "SELECT count(*) FROM stock").fetchone() == (0,)


def test_an_application_s_views_are_shown_and_its_tables_are_not(applied: MigratedInstallation) -> None:
    tenant = applied.tenants[0]
    read = f"has_table_privilege('{tenant.api_role}', %s, 'SELECT')"
    row = applied.in_schema(tenant, "SELECT " + read % "'shown'" + ", " + read % "'stock'").fetchone()
    assert row == (True, False)


def test_an_application_s_steps_are_taken_back_alone(applied: MigratedInstallation) -> None:
    assert [outcome.done for outcome in applied.rollback()] == [("0001",)] * 3
    assert applied.application_versions() == dict.fromkeys(SLUGS, 0)
    assert applied.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)
    assert [outcome.done for outcome in applied.migrate()] == [("0001",)] * 3


def test_application_step_leaves_functions_as_they_are(applied: MigratedInstallation) -> None:
    def defined() -> list[object]:
        read = "SELECT applied_at FROM schema_migrations WHERE source = 'core' AND version = 0"
        return [applied.in_schema(tenant, read).fetchone() for tenant in applied.tenants]

    before = defined()
    applied.write("application/0002_more.sql", "CREATE TABLE more (id integer)")
    assert [outcome.done for outcome in applied.migrate(jobs=2)] == [("0002",)] * 3
    assert defined() == before
    assert check(applied.admin, applied.logins) == []


def test_failed_library_step_stops_application_steps(applied: MigratedInstallation) -> None:
    applied.write("tenant/schema/0002_bad.sql", "SELECT 1 / (SELECT count(*) FROM background_jobs)")
    applied.write("application/0002_more.sql", "CREATE TABLE more (id integer)")
    assert len(failed(applied.migrate())) == 3
    assert applied.application_versions() == dict.fromkeys(SLUGS, 1)


def test_wrong_application_folder_is_refused(applied: MigratedInstallation) -> None:
    applied.write("application/0002_more.sql", "CREATE TABLE more (id integer)")
    applied.migrate()
    (applied.folder / "application/0002_more.sql").unlink()
    assert {outcome.error for outcome in applied.migrate()} == {
        "version 0002 of the application has no file in the folder of [tool.turno] migrations"
    }
