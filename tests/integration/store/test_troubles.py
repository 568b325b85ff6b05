"""An installation's problems are shown to its operator: the tenant, the time, and the command to type."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from tests.failures import end_jobs, fail_items, settle_failures
from turno.store.engine.announcements import Announcement
from turno.store.operator.troubles import Trouble, troubles
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation

KNOWN = ("batch_invoicing", 1)
DEAD_AFTER = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def maintained_pool(world: ExampleInstallation) -> None:
    """Jobs wait for a pool, and some process runs maintenance."""
    world.backend = "pool"
    world.rows(
        "INSERT INTO turno.leases (name, holder, until) VALUES ('steady sweeps', 'x', now() + interval '1 hour')"
        " ON CONFLICT (name) DO UPDATE SET until = excluded.until"
    )


def told(world: ExampleInstallation) -> list[Trouble]:
    with service_session(world.logins, world.logins.operator, application="turno-cli") as operator:
        return troubles(operator, DEAD_AFTER)


def worker(world: ExampleInstallation) -> UUID:
    return world.engine.start_worker(backend="pool", host="here", pid=7, types=[KNOWN], queues=None)


def test_an_installation_that_works_has_none(world: ExampleInstallation) -> None:
    worker(world)
    world.enqueue({"order_ids": [1]})
    assert told(world) == []


def test_unserved_jobs_are_reported_with_waiting_tenants(world: ExampleInstallation) -> None:
    for tenant in (world.one, world.other):
        world.enqueue({"order_ids": [1]}, tenant=tenant)
    assert told(world) == []
    (row,) = world.rows("UPDATE turno.tickets SET run_at = now() - interval '90 s' RETURNING run_at")[:1]
    (trouble,) = told(world)
    assert trouble[:4] == (
        "no worker is alive: 2 jobs of 2 tenants wait for pool", row["run_at"], "turno work", "lacks worker"
    )  # fmt: skip


def test_jobs_without_a_worker_are_one_trouble(world: ExampleInstallation) -> None:
    for tenant in (world.one, world.other):
        world.enqueue({"order_ids": [1]}, tenant=tenant)
    world.rows("UPDATE turno.tickets SET run_at = now() - interval '1 hour'")
    assert [one.kind for one in told(world)] == ["lacks worker"]


def test_silent_worker_is_reported(world: ExampleInstallation) -> None:
    worker(world)
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s'")
    assert told(world) == []  # its rescue is due
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '61 s'")
    (trouble,) = told(world)
    assert trouble.sentence.startswith("the worker 7 of here is silent")
    assert trouble.command == "turno maintain --once"


def test_silence_during_an_outage_is_no_trouble(world: ExampleInstallation) -> None:
    """No process could hear a heartbeat: the rescue counts the silence from the end of the outage."""
    worker(world)
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '1 hour'")
    world.rows("DELETE FROM turno.leases WHERE name = 'sweep'")
    assert world.engine.take_lease("sweep", "the first process after the outage", timedelta(seconds=9))
    assert told(world) == []
    world.rows("UPDATE turno.leases SET since = since - interval '61 s' WHERE name = 'sweep'")
    assert [one.kind for one in told(world)] == ["silent worker"]


def test_task_failing_for_a_tenant_is_reported(world: ExampleInstallation) -> None:
    for failures in (1, 2):
        world.engine.end_turn("repair", world.one.id, "lock timeout", first=DEAD_AFTER, longest=DEAD_AFTER)
        assert len(told(world)) == failures - 1
    (trouble,) = told(world)
    assert (trouble.sentence, trouble.tenant) == (
        "1 maintenance task fails for suc0001; repair: lock timeout",
        "suc0001",
    )
    world.engine.end_turn("repair", world.one.id, None, first=DEAD_AFTER, longest=DEAD_AFTER)
    assert told(world) == []


def test_missed_moments_are_reported(world: ExampleInstallation) -> None:
    world.engine.announce([Announcement(*KNOWN, "cold", 4)], 20)
    world.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " VALUES ('nightly', %s, '{}', 1, 'ana', 86400, 'UTC', 0, 'skip', now() - interval '3 days')",
        KNOWN[0],
    )
    world.swept_until_now()
    world.sweep()
    (trouble,) = told(world)
    assert (trouble.kind, trouble.tenant) == ("schedules", "suc0001")
    assert trouble.sentence.startswith("1 schedules of suc0001 left moments out; nightly: 3 moments were missed")
    world.rows("UPDATE job_schedules SET paused_at = now(), next_at = NULL")
    assert told(world) == []


def test_old_snapshot_is_reported_to_permitted_operators(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turno.store.operator.troubles.OLD_SNAPSHOT", timedelta(seconds=0.2))
    role = sql.Identifier(world.logins.operator)
    how = sql.SQL(" WITH INHERIT TRUE" if world.admin.info.server_version >= 160_000 else "")

    def old(*statements: str) -> list[str]:
        with psycopg.connect(world.url) as session:
            for statement in statements:
                session.execute(statement.encode())
            session.execute("SELECT pg_sleep(0.3)")
            return [one.kind for one in told(world) if one.kind == "old snapshot"]

    assert old("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1") == [], "the operator may not see it"
    world.admin.execute(sql.SQL("GRANT pg_read_all_stats TO {}").format(role) + how)
    try:
        assert old("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1") == ["old snapshot"]
        assert old("CREATE TEMP TABLE written (n int)") == ["old snapshot"]
        assert old("SELECT 1") == [], "between two statements it keeps no row"
        assert [one.kind for one in told(world)] == [], "it is over"
    finally:
        world.admin.execute(sql.SQL("REVOKE pg_read_all_stats FROM {}").format(role))


@pytest.mark.parametrize("left", ["UPDATE turno.leases SET until = now() - interval '1 s'", "DELETE FROM turno.leases"])
def test_missing_maintenance_is_reported(world: ExampleInstallation, left: str) -> None:
    world.rows(left)
    (trouble,) = told(world)
    assert trouble.command == "turno maintain"


def test_failures_are_grouped_by_type_and_error(world: ExampleInstallation) -> None:
    end_jobs(world, world.one, failed=2, completed=1)
    end_jobs(world, world.other, failed=1, completed=3)
    end_jobs(world, world.other, failed=3, error="KeyError: #")
    end_jobs(world, world.other, "export", failed=1, completed=99)
    end_jobs(world, world.one, failed=5, error="OSError", ago="61 minutes")
    assert [(one.sentence, one.tenant, one.alert) for one in told(world)] == [
        ("import fails in suc0002: 3 of 7 in the last hour, mostly KeyError: #", "suc0002", True),
        ("import fails in 2 tenants: 3 of 10 in the last hour, mostly TimeoutError: bank did not answer", None, True),
        ("export fails in suc0002: 1 of 100 in the last hour, TimeoutError: bank did not answer", "suc0002", False),
    ]
    assert [one.command for one in told(world)][:2] == [
        "turno job list --tenant suc0002 --type import --error KeyError --group-by error",
        "turno job list --all --type import --error TimeoutError --group-by error",
    ]


def test_resolved_failures_are_no_trouble(world: ExampleInstallation) -> None:
    end_jobs(world, world.one, failed=200)
    world.rows(
        "UPDATE turno.dead_letters SET closed_at = now(), closed_as = 'replayed'"
        " WHERE job_id <> (SELECT min(job_id::text)::uuid FROM turno.dead_letters)"
    )
    (trouble,) = told(world)
    assert trouble.sentence == "import fails in suc0001: 1 of 200 in the last hour, TimeoutError: bank did not answer"
    settle_failures(world)
    assert told(world) == []


def test_hundred_old_failures_are_reported(world: ExampleInstallation) -> None:
    end_jobs(world, world.one, failed=99, ago="2 hours")
    assert told(world) == []
    end_jobs(world, world.one, failed=1, ago="2 hours")
    (trouble,) = told(world)
    assert trouble.sentence == "import fails in suc0001: 100 unresolved jobs, mostly TimeoutError: bank did not answer"
    assert (trouble.kind, trouble.alert) == ("failures", True)


def test_failed_items_of_completed_jobs_are_reported(world: ExampleInstallation) -> None:
    fail_items(world, world.other, done=497, failed=3)
    (trouble,) = told(world)
    assert trouble.sentence == (
        "items of import fail in suc0002: 3 of 500 in the last hour, mostly ValueError: bad row"
    )
    assert trouble.command == "turno job list --tenant suc0002 --type import --error ValueError --group-by error"


def test_parked_jobs_are_reported(world: ExampleInstallation) -> None:
    worker(world)
    job_id = world.enqueue({"order_ids": [1]})
    world.rows("UPDATE turno.tickets SET run_at = 'infinity', state = 'review' WHERE job_id = %s", job_id)
    (trouble,) = told(world)
    assert trouble.command == "turno job list --tenant suc0001 --needs-review"


def test_long_wait_of_a_tenant_is_reported(world: ExampleInstallation) -> None:
    worker(world)
    world.enqueue({"order_ids": [1]})
    world.rows("UPDATE turno.tickets SET run_at = now() - interval '6 minutes'")
    (trouble,) = told(world)
    assert trouble.sentence == "suc0001 waits for its turn with 1 job"
    world.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    (trouble,) = told(world)
    assert trouble.sentence == "suc0001 is paused with 1 job"
    world.rows("UPDATE turno.tenants SET paused_at = NULL")


def test_jobs_of_a_paused_type_are_no_long_wait(world: ExampleInstallation) -> None:
    worker(world)
    for tenant in (world.one, world.other):
        world.enqueue({"order_ids": [1]}, tenant=tenant)
    world.rows("UPDATE turno.tickets SET run_at = now() - interval '6 minutes'")
    world.rows("INSERT INTO turno.job_types (type, paused_at) VALUES (%s, now())", KNOWN[0])
    (trouble,) = told(world)
    assert (trouble.sentence, trouble.alert) == ("batch_invoicing is paused with 2 jobs of 2 tenants", False)
    assert trouble.command == "turno type set batch_invoicing --resumed"
