"""The contents of migration files: steps, with or without a transaction, and functions."""

import threading

import psycopg
import pytest
from psycopg import sql

from tests.integration.tenancy.migrations.migrated_installation import WIDGETS, MigratedInstallation
from turno.tenancy.catalog import check
from turno.tenancy.schema_migrations.all_schemas import failed, status
from turno.tenancy.schema_migrations.files import InvalidMigrations
from turno.tenancy.schema_migrations.one_schema import Outcome
from turno.testing.wait import wait_until


def test_a_changed_file_is_an_error_and_nothing_is_applied(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    installation.migrate()
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS + "-- changed\n")
    installation.write("tenant/schema/0003_more.sql", "CREATE TABLE more ();")
    outcomes = installation.migrate()
    (error,) = {outcome.error for outcome in outcomes}
    assert error is not None
    assert error.startswith("version 0002 was changed after it was applied here; restore the file, or make a new")
    assert {
        state.drifted for state in status(installation.admin, installation.logins, migrations=installation.migrations)
    } == {(), ("0002",)}
    assert set(installation.versions().values()) == {1, 2}


def test_a_step_without_a_transaction(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    installation.write(
        "tenant/schema/0003_by_name.sql",
        "-- no-transaction\n"
        "DROP INDEX CONCURRENTLY IF EXISTS by_name;\n"
        "CREATE INDEX CONCURRENTLY by_name ON widgets (name);\n"
        "-- and another\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_size ON widgets (length(name));\n",
    )
    assert {outcome.done for outcome in installation.migrate(jobs=2)} == {("0002", "0003")}
    assert installation.in_schema(installation.tenants[0], "SELECT to_regclass('by_size') IS NULL").fetchone() == (
        False,
    )
    assert check(installation.admin, installation.logins) == []


def test_two_runs_at_once_build_one_valid_index(installation: MigratedInstallation) -> None:
    installation.write(
        "tenant/schema/0002_by_status.sql",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY by_status ON background_jobs (status);\n",
    )
    outcomes: list[Outcome] = []
    with psycopg.connect(installation.url) as slow, installation.connect() as watch:
        building = "SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for old snapshots%'"
        # An old snapshot, as a report has it, keeps the first run building while the second waits for the lock.
        slow.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT FROM turno.tenants")
        runs = [threading.Thread(target=lambda: outcomes.extend(installation.migrate(jobs=3))) for _ in range(2)]
        for run in runs:
            run.start()
        assert wait_until(lambda: watch.execute(building).fetchone() is not None, within=20)
        slow.rollback()
        for run in runs:
            run.join()
    assert failed(outcomes) == []
    for tenant in installation.tenants:
        valid = installation.in_schema(
            tenant, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'by_status'::regclass"
        )
        assert valid.fetchone() == (True,)


def test_failed_step_without_transaction_is_repeated(installation: MigratedInstallation) -> None:
    step = "-- no-transaction\nCREATE TABLE IF NOT EXISTS half ();\nSELECT 1 / {};\n"
    installation.write("tenant/schema/0002_half.sql", step.format(0))
    assert len(failed(installation.migrate())) == 3
    assert set(installation.versions().values()) == {1}
    installation.write("tenant/schema/0002_half.sql", step.format(1))
    assert {outcome.done for outcome in installation.migrate()} == {("0002",)}
    # The session is itself again: it was the owner outside of any transaction.
    assert check(installation.admin, installation.logins) == []


def test_functions_follow_their_files(installation: MigratedInstallation) -> None:
    answer = "CREATE OR REPLACE FUNCTION answer() RETURNS integer LANGUAGE sql\nRETURN {};\n"
    installation.write("tenant/functions/answer.sql", answer.format(41))
    installation.in_schema(installation.tenants[0], "CREATE FUNCTION their_own() RETURNS integer LANGUAGE sql RETURN 1")
    assert {
        state.redefine for state in status(installation.admin, installation.logins, migrations=installation.migrations)
    } == {False, True}
    assert [(outcome.done, outcome.redefined) for outcome in installation.migrate()] == [((), True)] * 3
    installation.write("tenant/functions/answer.sql", answer.format(42))
    installation.migrate()
    assert installation.in_schema(installation.tenants[0], "SELECT answer()").fetchone() == (42,)
    (installation.folder / "tenant" / "functions" / "answer.sql").unlink()
    installation.migrate()
    assert installation.migrate() == []
    left = installation.in_schema(
        installation.tenants[0],
        "SELECT proname FROM pg_proc WHERE proname ~ '^(answer|their_own)' "
        "AND pronamespace = current_schema()::regnamespace",
    ).fetchall()
    assert left == [("their_own",)]


def test_a_step_and_its_functions_are_one_transaction(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    installation.write(
        "tenant/functions/widget_count.sql",
        "CREATE OR REPLACE FUNCTION widget_count() RETURNS bigint LANGUAGE sql\n"
        "RETURN (SELECT sum(size) FROM widgets);",
    )
    assert {(outcome.done, (outcome.error or "").split(":")[0]) for outcome in installation.migrate()} == {
        ((), "functions and rights")
    }
    assert installation.in_schema(installation.tenants[0], "SELECT to_regclass('widgets')").fetchone() == (None,)
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS.replace("name text", "name text, size bigint"))
    assert {outcome.done for outcome in installation.migrate()} == {("0002",)}


CREATE = "CREATE OR REPLACE FUNCTION {}() RETURNS integer LANGUAGE sql RETURN 1;\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty", "SELECT 1;"),
        ("other", CREATE.format("another")),
        ("job_again", CREATE.format("job_again") + CREATE.format("job_end")),
    ],
)
def test_function_is_in_the_file_of_its_name(installation: MigratedInstallation, name: str, text: str) -> None:
    installation.write(f"tenant/functions/{name}.sql", text)
    with pytest.raises(InvalidMigrations, match=r"^job_end.sql: |^(empty|other).sql: "):
        _ = installation.migrations


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tenant/schema/2_short.sql", ""),
        ("tenant/schema/0001_again.sql", ""),
        ("tenant/schema/0002_up.down.sql", ""),
        ("tenant/schema/0002-dash.sql", ""),
    ],
)
def test_a_misnamed_file_is_refused(installation: MigratedInstallation, name: str, text: str) -> None:
    installation.write(name, text)
    with pytest.raises(InvalidMigrations, match=r"NNNN_name\.sql"):
        _ = installation.migrations


def test_a_folder_with_a_gap_is_refused_and_nothing_is_applied(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0003_later.sql", "CREATE TABLE later ();")
    with pytest.raises(InvalidMigrations, match=r"^0003_later\.sql: no 0002_\*\.sql precedes it; .*restore"):
        installation.migrate()
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert {outcome.done for outcome in installation.migrate()} == {("0002", "0003")}


def test_the_bodies_of_all_functions_can_be_read(installation: MigratedInstallation) -> None:
    """They are made without being checked, which would be dear for each tenant; here they are."""
    for schema in ("turno", installation.tenants[0].schema):
        named = sql.SQL("SET LOCAL search_path = {}, pg_temp").format(sql.Identifier(schema))
        texts = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = to_regnamespace(%s)"
        with installation.admin.transaction(force_rollback=True):
            installation.admin.execute(named)
            for (text,) in installation.admin.execute(texts, [schema]).fetchall():
                installation.admin.execute(text)
