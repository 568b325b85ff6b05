"""Steps of the application that are rolled back."""

import pytest

from tests.integration.tenancy.migrations.migrated_installation import SLUGS, WIDGETS, MigratedInstallation
from turno.tenancy.catalog import check


@pytest.fixture
def stepped(installation: MigratedInstallation) -> MigratedInstallation:
    """An application with two steps with a way back, the second outside of a transaction."""
    (installation.folder / "application").mkdir()
    installation.write("application/0001_widgets.sql", WIDGETS)
    installation.write("application/0001_widgets.down.sql", "DROP TABLE widgets;")
    installation.write(
        "application/0002_by_name.sql", "-- no-transaction\nCREATE INDEX CONCURRENTLY by_name ON widgets (name);"
    )
    installation.write("application/0002_by_name.down.sql", "-- no-transaction\nDROP INDEX CONCURRENTLY by_name;")
    installation.migrate()
    return installation


def test_rollback_of_chosen_tenants_and_of_all(stepped: MigratedInstallation) -> None:
    assert [outcome.done for outcome in stepped.rollback(slugs=["suc0001"])] == [("0002",)]
    assert stepped.in_schema(stepped.tenants[0], "SELECT to_regclass('by_name')").fetchone() == (None,)
    assert stepped.application_versions() == {"suc0001": 1, "suc0002": 2, "suc0003": 2}
    expected = [("0001",), ("0002", "0001"), ("0002", "0001")]
    assert [outcome.done for outcome in stepped.rollback(steps=2, dry_run=True)] == expected
    assert [outcome.done for outcome in stepped.rollback(steps=2, jobs=2)] == expected
    assert stepped.rollback() == []
    assert check(stepped.admin, stepped.logins) == []
    assert {outcome.done for outcome in stepped.migrate()} == {("0001", "0002")}
    assert stepped.application_versions() == dict.fromkeys(SLUGS, 2)


def test_rollback_without_a_down_file_is_refused(stepped: MigratedInstallation) -> None:
    (stepped.folder / "application/0002_by_name.down.sql").unlink()
    errors = {outcome.error for outcome in stepped.rollback()}
    assert errors == {"0002_by_name: a migration without a .down.sql cannot be rolled back"}


def test_rollback_of_steps_without_a_file_is_refused(stepped: MigratedInstallation) -> None:
    for name in ("0002_by_name.sql", "0002_by_name.down.sql"):
        (stepped.folder / "application" / name).unlink()
    assert all(outcome.error for outcome in stepped.rollback())
