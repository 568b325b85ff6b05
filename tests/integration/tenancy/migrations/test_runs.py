"""Runs of migrations over all schemas: failures, several at once, locks and rights."""

import contextlib
import threading
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.integration.tenancy.migrations.migrated_installation import (
    KEY,
    PACKAGED,
    SLUGS,
    WIDGETS,
    MigratedInstallation,
)
from turno.tenancy.catalog import check
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.rights import grants
from turno.tenancy.rights.matrix import Matrix
from turno.tenancy.schema_migrations import ledger
from turno.tenancy.schema_migrations.all_schemas import failed, fan_out, migrate, status
from turno.tenancy.schema_migrations.files import Migrations
from turno.tenancy.schema_migrations.one_schema import MigrationFailed, Outcome


def test_a_second_run_has_nothing_to_do(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert [outcome.done for outcome in installation.migrate()] == [("0002",)] * 3
    assert installation.migrate() == []
    assert installation.versions() == {"": 1} | dict.fromkeys(SLUGS, 2)


def test_new_things_have_their_rights_at_once(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    installation.migrate()
    assert check(installation.admin, installation.logins) == []
    row = installation.in_schema(
        installation.tenants[0],
        f"SELECT has_table_privilege('{installation.tenants[0].handler_role}', 'widgets', 'INSERT')",
    )
    assert row.fetchone() == (True,)


def test_dry_run_prints_the_plan_and_changes_nothing(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert [outcome.done for outcome in installation.migrate(dry_run=True)] == [("0002",)] * 3
    assert installation.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)


def test_empty_database_can_be_inspected(database: str) -> None:
    logins = Logins(database, KEY)
    steps = tuple(Migrations.read(PACKAGED).control.steps)
    with psycopg.connect(database, autocommit=True) as admin:
        (control,) = status(admin, logins)
        assert (control.at, control.pending) == (0, steps)
    (planned,) = migrate(lambda: psycopg.connect(database, autocommit=True), logins, dry_run=True)
    assert planned.done == steps


def test_failure_of_a_tenant_is_named_and_stops_no_tenant(installation: MigratedInstallation) -> None:
    installation.in_schema(installation.tenants[1], "CREATE TABLE widgets ()")
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    installation.write("tenant/schema/0003_more.sql", "ALTER TABLE widgets ADD COLUMN size integer;")
    (bad,) = failed(installation.migrate(jobs=2))
    assert bad.slug == "suc0002"
    assert bad.done == ()
    assert bad.error
    assert bad.error.startswith("0002_widgets: ")
    assert installation.versions() == {"": 1, "suc0001": 3, "suc0002": 1, "suc0003": 3}


def test_failed_step_leaves_nothing_and_the_next_run_resumes(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    installation.write("tenant/schema/0003_broken.sql", "CREATE TABLE half (); SELECT 1 / 0;")
    assert {outcome.done for outcome in failed(installation.migrate())} == {()}
    left = installation.in_schema(
        installation.tenants[0], "SELECT to_regclass('widgets'), to_regclass('half')"
    ).fetchone()
    assert left == (None, None)
    installation.write("tenant/schema/0003_broken.sql", "CREATE TABLE half ();")
    assert {outcome.done for outcome in installation.migrate()} == {("0002", "0003")}


def test_failed_canary_spares_the_rest(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_broken.sql", "SELECT 1 / 0;")
    (only,) = installation.migrate(canary="suc0002")
    assert only.slug == "suc0002"
    assert only.error


def test_living_canary_is_followed_by_the_rest(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    assert [outcome.slug for outcome in installation.migrate(canary="suc0002")] == ["suc0002", "suc0001", "suc0003"]


def test_parallel_run_reports_each_tenant(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    reply: list[tuple[str, int, int]] = []
    installation.migrate(jobs=3, progress=lambda outcome, ended, total: reply.append((outcome.slug, ended, total)))
    assert {slug for slug, _, _ in reply} == set(SLUGS)
    assert [(ended, total) for _, ended, total in reply] == [(1, 3), (2, 3), (3, 3)]


def test_interrupt_drops_unbegun_tenants(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)

    def interrupted(_outcome: Outcome, _ended: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        installation.migrate(progress=interrupted)
    installation.migrate()
    assert installation.versions() == {"": 1} | dict.fromkeys(SLUGS, 2)


def test_two_runs_at_once_apply_each_step_once(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS + "SELECT pg_sleep(0.05);")
    outcomes: list[Outcome] = []
    runs = [threading.Thread(target=lambda: outcomes.extend(installation.migrate(jobs=2))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert failed(outcomes) == []
    assert sorted(outcome.slug for outcome in outcomes if outcome.done) == SLUGS


def test_a_newer_schema_is_left_alone(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    installation.migrate()
    (installation.folder / "tenant" / "schema" / "0002_widgets.sql").unlink()
    (error,) = {outcome.error for outcome in installation.migrate()}
    assert error is not None
    assert error == "version 0002 was applied by a newer release; use the newer release"
    assert {
        state.unknown for state in status(installation.admin, installation.logins, migrations=installation.migrations)
    } == {(), ("0002",)}


def test_a_held_lock_is_waited_for_but_not_for_ever(installation: MigratedInstallation) -> None:
    installation.write("tenant/schema/0002_column.sql", "ALTER TABLE background_jobs ADD COLUMN colour text;")
    with psycopg.connect(installation.url) as holder:
        holder.execute(
            sql.SQL("SELECT FROM {}").format(sql.Identifier(installation.tenants[0].schema, "background_jobs"))
        )
        release = threading.Timer(3, holder.rollback)
        release.start()
        assert failed(installation.migrate(jobs=3)) == []
        release.join()


def test_tampered_rights_are_restored_on_request(installation: MigratedInstallation) -> None:
    installation.in_schema(
        installation.tenants[0], f"GRANT UPDATE ON background_jobs TO {installation.tenants[0].handler_role}"
    )
    installation.in_schema(installation.tenants[1], "GRANT SELECT ON background_jobs TO PUBLIC")
    installation.in_schema(
        installation.tenants[2], f"REVOKE ALL ON background_jobs FROM {installation.tenants[2].handler_role}"
    )
    assert installation.migrate() == []
    assert check(installation.admin, installation.logins) != []
    assert [outcome.redefined for outcome in installation.migrate(redefine=True)] == [False, True, True, True]
    assert check(installation.admin, installation.logins) == []


def test_a_new_matrix_is_applied_without_a_new_version(
    installation: MigratedInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Matrix(grants.TENANT.usage, {}, grants.TENANT.relations, others=grants.TENANT.others)
    monkeypatch.setattr("turno.tenancy.rights.schemas.TENANT", other)
    assert {
        state.redefine for state in status(installation.admin, installation.logins, migrations=installation.migrations)
    } == {False, True}
    assert [outcome.redefined for outcome in installation.migrate()] == [True] * 3
    assert installation.migrate() == []


def test_ledgers_are_read_together_in_any_number(
    installation: MigratedInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "TOGETHER", 2)
    assert installation.versions() == {"": 1} | dict.fromkeys(SLUGS, 1)


def test_search_path_reaches_no_second_schema(installation: MigratedInstallation) -> None:
    installation.write(
        "tenant/schema/0002_path.sql",
        "CREATE TABLE path AS SELECT current_setting('search_path') AS is, current_user AS me;",
    )
    installation.migrate()
    tenant = installation.tenants[0]
    assert installation.in_schema(tenant, "SELECT * FROM path").fetchone() == (
        f"{tenant.schema}, pg_temp",
        tenant.owner_role,
    )


def test_a_broken_connection_costs_one_schema(database: str) -> None:
    def work(admin: psycopg.Connection[Any], task: int) -> str:
        if task == 0:
            with contextlib.suppress(psycopg.OperationalError):
                admin.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            return "broken"
        admin.execute("SELECT 1")
        return "done"

    connect = partial(psycopg.connect, database, autocommit=True)
    reply = fan_out(connect, [1, 0, 2, 3], work, jobs=1, progress=lambda *_: None)
    assert reply == ["done", "broken", "done", "done"]


def test_a_failed_control_schema_stops_the_rest(installation: MigratedInstallation) -> None:
    installation.write("control/schema/0002_broken.sql", "SELECT 1 / 0;")
    installation.write("tenant/schema/0002_widgets.sql", WIDGETS)
    (only,) = installation.migrate()
    assert only.schema == "turno"
    with pytest.raises(MigrationFailed, match="turno: 0002_broken"):
        install(installation.admin, installation.logins, migrations=installation.migrations)
    installation.write("control/schema/0002_broken.sql", "CREATE TABLE gauges ();")
    assert install(installation.admin, installation.logins, migrations=installation.migrations) == ("0002",)
