import contextlib
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from turno.servers.wait import wait_until
from turno.tenancy.catalog.check import check
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.rights import grants
from turno.tenancy.rights.matrix import CatalogObject, Kind, Matrix
from turno.tenancy.rights.privileges import live_objects
from turno.tenancy.schema_migrations import ledger
from turno.tenancy.schema_migrations.all_schemas import failed, migrate, rollback, status
from turno.tenancy.schema_migrations.fan_out import fan_out
from turno.tenancy.schema_migrations.files import Migrations, MissingMigration
from turno.tenancy.schema_migrations.ledger import LIBRARY
from turno.tenancy.schema_migrations.one_schema import MigrationFailed, Outcome

KEY = b"the tests' own master key, 32 or more"
PACKAGED = Path(__file__).resolve().parents[3] / "turno" / "migrations"
SLUGS = ["suc0001", "suc0002", "suc0003"]
WIDGETS = "CREATE TABLE widgets (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);"


@dataclass
class Place:
    """An installation with three tenants, and a folder of migrations of its own to add to."""

    url: str
    folder: Path
    logins: Logins
    admin: psycopg.Connection[Any]
    tenants: list[Tenant]

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    @property
    def migrations(self) -> Migrations:
        application = self.folder / "application"
        return Migrations.read(self.folder, application if application.exists() else None)

    def migrate(self, **options: Any) -> list[Outcome]:
        return migrate(self.connect, self.logins, migrations=self.migrations, **options)

    def rollback(self, **options: Any) -> list[Outcome]:
        return rollback(self.connect, self.logins, migrations=self.migrations, **options)

    def versions(self) -> dict[str, int]:
        found = status(self.admin, self.logins, migrations=self.migrations)
        return {one.slug: one.at for one in found if one.ledger == LIBRARY}

    def application_versions(self) -> dict[str, int]:
        found = status(self.admin, self.logins, migrations=self.migrations)
        return {one.slug: one.at for one in found if one.ledger != LIBRARY}

    def in_schema(self, tenant: Tenant, statement: Any) -> psycopg.Cursor[Any]:
        with self.admin.transaction():
            self.admin.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(tenant.schema)))
            return self.admin.execute(statement)


def set_up(place: Place) -> None:
    """Install, and add the tenants."""
    install(place.admin, place.logins, migrations=place.migrations)
    add_company(place.admin, place.logins, "acme", "Acme")
    for slug in SLUGS:
        place.tenants.append(add_tenant(place.admin, place.logins, slug, "acme", migrations=place.migrations))


@pytest.fixture
def packaged(database: str) -> Iterator[Place]:
    """The steps as they are packaged."""
    with psycopg.connect(database, autocommit=True) as admin:
        place = Place(database, PACKAGED, Logins(database, KEY), admin, [])
        set_up(place)
        yield place


@pytest.fixture
def place(database: str, tmp_path: Path) -> Iterator[Place]:
    for room in ("tenant", "control"):
        shutil.copytree(PACKAGED / room / "functions", tmp_path / room / "functions")
        (tmp_path / room / "schema").mkdir()
        # All that is packaged as one first step, however many files it has by now.
        ups = [
            file for file in sorted((PACKAGED / room / "schema").glob("*.sql")) if not file.name.endswith(".down.sql")
        ]
        whole = "\n".join(file.read_text(encoding="utf-8") for file in ups)
        (tmp_path / room / "schema" / "0001_whole.sql").write_text(whole, encoding="utf-8")
    with psycopg.connect(database, autocommit=True) as admin:
        place = Place(database, tmp_path, Logins(database, KEY), admin, [])
        set_up(place)
        yield place


def test_a_second_run_has_nothing_to_do(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert [outcome.done for outcome in place.migrate()] == [(2,)] * 3
    assert place.migrate() == []
    assert place.versions() == {"": 1} | dict.fromkeys(SLUGS, 2)


def test_new_things_have_their_rights_at_once(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.migrate()
    assert check(place.admin, place.logins) == []
    row = place.in_schema(
        place.tenants[0], f"SELECT has_table_privilege('{place.tenants[0].handler_role}', 'widgets', 'INSERT')"
    )
    assert row.fetchone() == (True,)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert [outcome.done for outcome in place.migrate(dry_run=True)] == [(2,)] * 3
    assert place.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)


def test_an_empty_database_can_be_asked(database: str) -> None:
    logins = Logins(database, KEY)
    steps = tuple(sorted(Migrations.read(PACKAGED).control.steps))
    with psycopg.connect(database, autocommit=True) as admin:
        (control,) = status(admin, logins)
        assert (control.at, control.pending) == (0, steps)
    (planned,) = migrate(lambda: psycopg.connect(database), logins, dry_run=True)
    assert planned.done == steps


def test_one_failure_stops_no_other_tenant_and_is_named(place: Place) -> None:
    place.in_schema(place.tenants[1], "CREATE TABLE widgets ()")
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.write("tenant/schema/0003_more.sql", "ALTER TABLE widgets ADD COLUMN size integer;")
    (bad,) = failed(place.migrate(jobs=2))
    assert bad.slug == "suc0002"
    assert bad.done == ()
    assert bad.error
    assert bad.error.startswith("0002_widgets: ")
    assert place.versions() == {"": 1, "suc0001": 3, "suc0002": 1, "suc0003": 3}


def test_a_failed_step_leaves_nothing_and_the_next_run_goes_on(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.write("tenant/schema/0003_broken.sql", "CREATE TABLE half (); SELECT 1 / 0;")
    assert {outcome.done for outcome in failed(place.migrate())} == {()}
    left = place.in_schema(place.tenants[0], "SELECT to_regclass('widgets'), to_regclass('half')").fetchone()
    assert left == (None, None)
    place.write("tenant/schema/0003_broken.sql", "CREATE TABLE half ();")
    assert {outcome.done for outcome in place.migrate()} == {(2, 3)}


def test_a_failed_canary_spares_the_others(place: Place) -> None:
    place.write("tenant/schema/0002_broken.sql", "SELECT 1 / 0;")
    (only,) = place.migrate(canary="suc0002")
    assert only.slug == "suc0002"
    assert only.error


def test_a_canary_that_lives_is_followed_by_the_others(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert [outcome.slug for outcome in place.migrate(canary="suc0002")] == ["suc0002", "suc0001", "suc0003"]


def test_several_at_a_time_tell_of_each(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    told: list[tuple[str, int, int]] = []
    place.migrate(jobs=3, progress=lambda outcome, ended, total: told.append((outcome.slug, ended, total)))
    assert {slug for slug, _, _ in told} == set(SLUGS)
    assert [(ended, total) for _, ended, total in told] == [(1, 3), (2, 3), (3, 3)]


def test_an_interrupt_drops_what_has_not_begun(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)

    def interrupted(_outcome: Outcome, _ended: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.migrate(progress=interrupted)
    place.migrate()
    assert place.versions() == {"": 1} | dict.fromkeys(SLUGS, 2)


def test_two_runs_at_once_apply_each_step_once(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS + "SELECT pg_sleep(0.05);")
    outcomes: list[Outcome] = []
    runs = [threading.Thread(target=lambda: outcomes.extend(place.migrate(jobs=2))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert failed(outcomes) == []
    assert sorted(outcome.slug for outcome in outcomes if outcome.done) == SLUGS


def test_a_changed_file_is_an_error_and_nothing_is_applied(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.migrate()
    place.write("tenant/schema/0002_widgets.sql", WIDGETS + "-- changed\n")
    place.write("tenant/schema/0003_more.sql", "CREATE TABLE more ();")
    outcomes = place.migrate()
    assert {outcome.error for outcome in outcomes} == {
        "version 0002 was changed after it was applied here; restore the file"
    }
    assert {one.drifted for one in status(place.admin, place.logins, migrations=place.migrations)} == {(), (2,)}
    assert set(place.versions().values()) == {1, 2}


def test_a_newer_schema_is_left_alone(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.migrate()
    (place.folder / "tenant" / "schema" / "0002_widgets.sql").unlink()
    assert {outcome.error for outcome in place.migrate()} == {
        "version 0002 was applied by a newer release; use that one"
    }
    assert {one.unknown for one in status(place.admin, place.logins, migrations=place.migrations)} == {(), (2,)}
    (outcome, *_) = place.rollback()
    assert outcome.error


def test_a_step_without_a_transaction(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.write(
        "tenant/schema/0003_by_name.sql",
        "-- no-transaction\n"
        "DROP INDEX CONCURRENTLY IF EXISTS by_name;\n"
        "CREATE INDEX CONCURRENTLY by_name ON widgets (name);\n"
        "-- and another\n"
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_size ON widgets (length(name));\n",
    )
    place.write(
        "tenant/schema/0003_by_name.down.sql",
        "-- no-transaction\nDROP INDEX CONCURRENTLY by_name;\n",
    )
    assert {outcome.done for outcome in place.migrate(jobs=2)} == {(2, 3)}
    assert place.in_schema(place.tenants[0], "SELECT to_regclass('by_size') IS NULL").fetchone() == (False,)
    assert {outcome.done for outcome in place.rollback()} == {(3,)}
    assert place.in_schema(place.tenants[0], "SELECT to_regclass('by_name')").fetchone() == (None,)
    assert check(place.admin, place.logins) == []


def test_two_runs_at_once_build_one_valid_index(place: Place) -> None:
    place.write(
        "tenant/schema/0002_by_status.sql",
        "-- no-transaction\nCREATE INDEX CONCURRENTLY by_status ON background_jobs (status);\n",
    )
    outcomes: list[Outcome] = []
    with place.connect() as slow, place.connect() as watch:
        watch.autocommit = True
        building = "SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for old snapshots%'"
        # An old snapshot, as a report has it, keeps the first run building while the second waits for the lock.
        slow.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT FROM turno.tenants")
        runs = [threading.Thread(target=lambda: outcomes.extend(place.migrate(jobs=3))) for _ in range(2)]
        for run in runs:
            run.start()
        assert wait_until(lambda: watch.execute(building).fetchone() is not None, within=20)
        slow.rollback()
        for run in runs:
            run.join()
    assert failed(outcomes) == []
    for tenant in place.tenants:
        valid = place.in_schema(tenant, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'by_status'::regclass")
        assert valid.fetchone() == (True,)


def test_a_step_without_a_transaction_that_fails_is_repeated_from_the_top(place: Place) -> None:
    step = "-- no-transaction\nCREATE TABLE IF NOT EXISTS half ();\nSELECT 1 / {};\n"
    place.write("tenant/schema/0002_half.sql", step.format(0))
    assert len(failed(place.migrate())) == 3
    assert set(place.versions().values()) == {1}
    place.write("tenant/schema/0002_half.sql", step.format(1))
    assert {outcome.done for outcome in place.migrate()} == {(2,)}
    # The session is itself again: it was the owner outside of any transaction.
    assert check(place.admin, place.logins) == []


def test_functions_follow_their_files(place: Place) -> None:
    answer = "CREATE OR REPLACE FUNCTION answer() RETURNS integer LANGUAGE sql\nRETURN {};\n"
    place.write("tenant/functions/answer.sql", answer.format(41))
    place.in_schema(place.tenants[0], "CREATE FUNCTION their_own() RETURNS integer LANGUAGE sql RETURN 1")
    assert {one.redefine for one in status(place.admin, place.logins, migrations=place.migrations)} == {False, True}
    assert [(outcome.done, outcome.redefined) for outcome in place.migrate()] == [((), True)] * 3
    place.write("tenant/functions/answer.sql", answer.format(42))
    place.migrate()
    assert place.in_schema(place.tenants[0], "SELECT answer()").fetchone() == (42,)
    (place.folder / "tenant" / "functions" / "answer.sql").unlink()
    place.migrate()
    assert place.migrate() == []
    left = place.in_schema(
        place.tenants[0],
        "SELECT proname FROM pg_proc WHERE proname IN ('answer', 'their_own') "
        "AND pronamespace = current_schema()::regnamespace",
    ).fetchall()
    assert left == [("their_own",)]


def test_a_step_and_its_functions_are_one_transaction(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.write(
        "tenant/functions/widget_count.sql",
        "CREATE OR REPLACE FUNCTION widget_count() RETURNS bigint LANGUAGE sql\n"
        "RETURN (SELECT sum(size) FROM widgets);",
    )
    assert {(one.done, (one.error or "").split(":")[0]) for one in place.migrate()} == {((), "functions and rights")}
    assert place.in_schema(place.tenants[0], "SELECT to_regclass('widgets')").fetchone() == (None,)
    place.write("tenant/schema/0002_widgets.sql", WIDGETS.replace("name text", "name text, size bigint"))
    assert {outcome.done for outcome in place.migrate()} == {(2,)}


CREATE = "CREATE OR REPLACE FUNCTION {}() RETURNS integer LANGUAGE sql RETURN 1;\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty", "SELECT 1;"),
        ("other", CREATE.format("another")),
        ("job_again", CREATE.format("job_again") + CREATE.format("job_end")),
    ],
)
def test_a_function_stands_in_the_one_file_of_its_name(place: Place, name: str, text: str) -> None:
    place.write(f"tenant/functions/{name}.sql", text)
    with pytest.raises(ValueError, match=r"^job_end.sql: |^(empty|other).sql: "):
        _ = place.migrations


def test_a_database_from_before_the_first_release_is_refused_with_a_sentence(place: Place) -> None:
    place.in_schema(place.tenants[0], "UPDATE schema_migrations SET checksum = 'of another commit' WHERE version = 1")
    (outcome,) = place.migrate()
    assert outcome.slug == "suc0001"
    assert outcome.error
    assert "made by a commit before the first release" in outcome.error
    assert "make a new database" in outcome.error


def test_steps_back(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.write("tenant/schema/0002_widgets.down.sql", "DROP TABLE widgets;")
    place.write("tenant/schema/0003_more.sql", "CREATE TABLE more ();")
    place.write("tenant/schema/0003_more.down.sql", "DROP TABLE more;")
    place.migrate()
    assert [outcome.done for outcome in place.rollback(slugs=["suc0001"])] == [(3,)]
    assert place.versions() == {"": 1, "suc0001": 2, "suc0002": 3, "suc0003": 3}
    assert [outcome.done for outcome in place.rollback(to=1, dry_run=True)] == [(2,), (3, 2), (3, 2)]
    assert [outcome.done for outcome in place.rollback(to=1, jobs=2)] == [(2,), (3, 2), (3, 2)]
    assert place.rollback(to=1) == []
    assert {outcome.done for outcome in place.migrate()} == {(2, 3)}


def test_what_cannot_be_taken_back_says_so(place: Place) -> None:
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    place.migrate()
    errors = {outcome.error for outcome in place.rollback()}
    assert errors == {"0002_widgets: A migration without a .down.sql cannot be taken back."}


def test_the_packaged_steps_go_down_and_up(packaged: Place) -> None:
    connect = packaged.connect
    migrate(connect, packaged.logins)
    rollback(connect, packaged.logins, to=0)
    for tenant in packaged.tenants:
        left = {found.thing for found in live_objects(packaged.admin, [tenant.schema])}
        ledger_tables = {CatalogObject(Kind.TABLE, name) for name in ("schema_migrations", "schema_functions")}
        assert left == {CatalogObject(Kind.SCHEMA, tenant.schema)} | ledger_tables
    assert failed(migrate(connect, packaged.logins)) == []
    assert check(packaged.admin, packaged.logins) == []


def test_a_held_lock_is_waited_for_but_not_for_ever(place: Place) -> None:
    place.write("tenant/schema/0002_column.sql", "ALTER TABLE background_jobs ADD COLUMN colour text;")
    with place.connect() as holder:
        holder.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(place.tenants[0].schema, "background_jobs")))
        release = threading.Timer(3, holder.rollback)
        release.start()
        assert failed(place.migrate(jobs=3)) == []
        release.join()


def test_tampered_rights_are_made_anew_when_asked(place: Place) -> None:
    place.in_schema(place.tenants[0], f"GRANT UPDATE ON background_jobs TO {place.tenants[0].handler_role}")
    place.in_schema(place.tenants[1], "GRANT SELECT ON background_jobs TO PUBLIC")
    place.in_schema(place.tenants[2], f"REVOKE ALL ON background_jobs FROM {place.tenants[2].handler_role}")
    assert place.migrate() == []
    assert check(place.admin, place.logins) != []
    assert [outcome.redefined for outcome in place.migrate(redefine=True)] == [False, True, True, True]
    assert check(place.admin, place.logins) == []


def test_a_new_matrix_is_applied_without_a_new_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Matrix(grants.TENANT.usage, {}, grants.TENANT.relations, others=grants.TENANT.others)
    monkeypatch.setattr("turno.tenancy.rights.schemas.TENANT", other)
    assert {one.redefine for one in status(place.admin, place.logins, migrations=place.migrations)} == {False, True}
    assert [outcome.redefined for outcome in place.migrate()] == [True] * 3
    assert place.migrate() == []


def test_ledgers_are_read_together_whatever_their_number(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "TOGETHER", 2)
    assert place.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)


def test_a_path_leads_to_no_other_schema(place: Place) -> None:
    place.write(
        "tenant/schema/0002_path.sql",
        "CREATE TABLE path AS SELECT current_setting('search_path') AS is, current_user AS me;",
    )
    place.migrate()
    tenant = place.tenants[0]
    assert place.in_schema(tenant, "SELECT * FROM path").fetchone() == (f"{tenant.schema}, pg_temp", tenant.owner_role)


def test_a_broken_connection_costs_one_schema(database: str) -> None:
    def work(admin: psycopg.Connection[Any], task: int) -> str:
        if task == 0:
            with contextlib.suppress(psycopg.OperationalError):
                admin.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            return "broken"
        admin.execute("SELECT 1")
        return "done"

    told = fan_out(lambda: psycopg.connect(database), [1, 0, 2, 3], work, jobs=1, progress=lambda *_: None)
    assert told == ["done", "broken", "done", "done"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tenant/schema/2_short.sql", ""),
        ("tenant/schema/0001_again.sql", ""),
        ("tenant/schema/0002_up.down.sql", ""),
        ("tenant/schema/0002-dash.sql", ""),
    ],
)
def test_a_misnamed_file_is_refused(place: Place, name: str, text: str) -> None:
    place.write(name, text)
    with pytest.raises(ValueError, match=r"NNNN_name\.sql"):
        _ = place.migrations


def test_a_folder_with_a_gap_is_refused_and_nothing_is_applied(place: Place) -> None:
    place.write("tenant/schema/0003_later.sql", "CREATE TABLE later ();")
    with pytest.raises(MissingMigration, match=r"^0003_later\.sql stands where no 0002_\*\.sql does\. .*restore"):
        place.migrate()
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert {outcome.done for outcome in place.migrate()} == {(2, 3)}


def test_a_failed_control_schema_stops_the_rest(place: Place) -> None:
    place.write("control/schema/0002_broken.sql", "SELECT 1 / 0;")
    place.write("tenant/schema/0002_widgets.sql", WIDGETS)
    (only,) = place.migrate()
    assert only.schema == "turno"
    with pytest.raises(MigrationFailed, match="turno: 0002_broken"):
        install(place.admin, place.logins, migrations=place.migrations)
    place.write("control/schema/0002_broken.sql", "CREATE TABLE gauges ();")
    assert install(place.admin, place.logins, migrations=place.migrations) == (2,)


@pytest.fixture
def applied(place: Place) -> Place:
    """A place whose application has a table and a view in each tenant."""
    (place.folder / "application").mkdir()
    place.write(
        "application/0001_stock.sql", "CREATE TABLE stock (id integer); CREATE VIEW shown AS SELECT id FROM stock"
    )
    place.write("application/0001_stock.down.sql", "DROP VIEW shown; DROP TABLE stock")
    assert [outcome.done for outcome in place.migrate()] == [(1,)] * 3
    return place


def test_an_application_s_tables_have_a_ledger_of_their_own(applied: Place) -> None:
    assert applied.migrate() == []
    assert applied.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)
    assert applied.application_versions() == dict.fromkeys(SLUGS, 1)
    assert check(applied.admin, applied.logins) == []
    added = add_tenant(applied.admin, applied.logins, "suc0004", "acme", migrations=applied.migrations)
    assert applied.in_schema(added, "SELECT count(*) FROM stock").fetchone() == (0,)


def test_an_application_s_views_are_shown_and_its_tables_are_not(applied: Place) -> None:
    tenant = applied.tenants[0]
    read = f"has_table_privilege('{tenant.api_role}', %s, 'SELECT')"
    row = applied.in_schema(tenant, "SELECT " + read % "'shown'" + ", " + read % "'stock'").fetchone()
    assert row == (True, False)


def test_an_application_s_steps_are_taken_back_alone(applied: Place) -> None:
    assert {outcome.done for outcome in applied.rollback(application=True)} == {(1,)}
    assert applied.application_versions() == dict.fromkeys(SLUGS, 0)
    assert applied.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)
    assert {outcome.done for outcome in applied.migrate()} == {(1,)}


def test_a_tenant_whose_library_s_step_failed_gets_none_of_the_application(applied: Place) -> None:
    applied.write("tenant/schema/0002_bad.sql", "SELECT 1 / (SELECT count(*) FROM background_jobs)")
    applied.write("application/0002_more.sql", "CREATE TABLE more (id integer)")
    assert len(failed(applied.migrate())) == 3
    assert applied.application_versions() == dict.fromkeys(SLUGS, 1)


def test_another_folder_than_the_application_s_is_said_to_be_one(applied: Place) -> None:
    applied.write("application/0002_more.sql", "CREATE TABLE more (id integer)")
    applied.migrate()
    (applied.folder / "application/0002_more.sql").unlink()
    assert {outcome.error for outcome in applied.migrate()} == {
        "version 0002 of the application has no file where MIGRATIONS says; correct it"
    }
