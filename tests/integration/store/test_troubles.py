"""An installation's problems are shown to its operator: the tenant, the time, and the command to type."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from tests.attempt_in_process import claim_in_process
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
def maintained_pool(example: ExampleInstallation) -> None:
    """Jobs wait for a pool, and some process runs maintenance."""
    example.backend = "pool"
    example.rows(
        "INSERT INTO turno.leases (name, holder, until) VALUES ('steady sweeps', 'x', now() + interval '1 hour')"
        " ON CONFLICT (name) DO UPDATE SET until = excluded.until"
    )


def reply(example: ExampleInstallation, companies: list[str] | None = None) -> list[Trouble]:
    with service_session(example.logins, example.logins.operator, application="turno-cli") as operator:
        return troubles(operator, DEAD_AFTER, companies)


def worker(example: ExampleInstallation) -> UUID:
    return example.engine.start_worker(backend="pool", host="here", pid=7, types=[KNOWN], queues=None)


def test_an_installation_that_works_has_none(example: ExampleInstallation) -> None:
    worker(example)
    example.enqueue({"order_ids": [1]})
    assert reply(example) == []


def test_unserved_jobs_are_reported_with_waiting_tenants(example: ExampleInstallation) -> None:
    for tenant in (example.one, example.other):
        example.enqueue({"order_ids": [1]}, tenant=tenant)
    assert reply(example) == []
    (row,) = example.rows("UPDATE turno.tickets SET run_at = now() - interval '90 s' RETURNING run_at")[:1]
    (trouble,) = reply(example)
    assert trouble[:4] == (
        "no worker is alive: 2 jobs of 2 tenants wait for pool", row["run_at"], "turno work", "lacks worker"
    )  # fmt: skip


def test_a_run_is_long_beside_the_runs_of_its_type(example: ExampleInstallation) -> None:
    assert claim_in_process(example, example.enqueue({"order_ids": [1]})) is not None
    example.rows(  # at most 10 s each
        "INSERT INTO turno.statistics"
        " VALUES (0, '-infinity', %s, 'completed', 20, 20, 9, 0, 0, '{0}', '{12}', '{20}', '{0}')",
        KNOWN[0],
    )
    assert reply(example) == []
    age = "UPDATE turno.tickets SET claimed_at = claimed_at - interval '6 minutes' RETURNING claimed_at"
    (row,) = example.rows(age)
    (trouble,) = reply(example)
    assert trouble[:4] == (
        "1 job of batch_invoicing runs for long: 99 of 100 attempts take at most 10 s", row["claimed_at"],
        "turno job list --all --type batch_invoicing --status running", "long run",
    )  # fmt: skip
    for change in ("run_buckets = '{19}'", "run_buckets = '{24}'", "run_buckets = '{12}', counts = '{19}'"):
        example.rows(f"UPDATE turno.statistics SET {change}")  # noqa: S608 - constants
        assert reply(example) == []
    example.rows("DELETE FROM turno.statistics")


def test_jobs_of_a_paused_tenant_are_not_unserved(example: ExampleInstallation) -> None:
    for tenant in (example.one, example.other):
        example.enqueue({"order_ids": [1]}, tenant=tenant)
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '90 s'")
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE id = %s RETURNING id", example.other.id)
    try:
        for companies in (None, [example.one.company]):
            (trouble,) = reply(example, companies)
            assert trouble.sentence == "no worker is alive: 1 job of 1 tenant waits for pool"
    finally:
        example.rows("UPDATE turno.tenants SET paused_at = NULL RETURNING id")


def test_jobs_without_a_worker_are_one_trouble(example: ExampleInstallation) -> None:
    for tenant in (example.one, example.other):
        example.enqueue({"order_ids": [1]}, tenant=tenant)
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '1 hour'")
    assert [trouble.kind for trouble in reply(example)] == ["lacks worker"]


def test_many_tenants_of_a_kind_are_one_trouble(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(example)
    for hours, tenant in enumerate(example.tenants.values(), 1):
        job = example.enqueue({"order_ids": [1]}, tenant=tenant)
        example.rows("UPDATE turno.tickets SET run_at = now() - %s WHERE job_id = %s", timedelta(hours=hours), job)
    assert [trouble.tenant for trouble in reply(example)] == ["suc0002", "suc0001"]
    monkeypatch.setattr("turno.store.operator.troubles.MOST_OF_A_KIND", 1)
    (trouble,) = reply(example)
    assert trouble.sentence == "suc0002 waits for its turn with 1 job; the same in 1 other tenant"
    assert (trouble.tenant, trouble.command) == (None, "turno tenant shares")
    assert reply(example, ["another company"]) == []


def test_silent_worker_is_reported(example: ExampleInstallation) -> None:
    worker(example)
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s'")
    assert reply(example) == []  # its rescue is due
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '61 s'")
    (trouble,) = reply(example)
    assert trouble.sentence.startswith("the worker 7 of here is silent")
    assert trouble.command == "turno maintain --once"


def test_silence_during_an_outage_is_no_trouble(example: ExampleInstallation) -> None:
    """No process could hear a heartbeat: the rescue counts the silence from the end of the outage."""
    worker(example)
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '1 hour'")
    example.rows("DELETE FROM turno.leases WHERE name = 'sweep'")
    assert example.engine.take_lease("sweep", "the first process after the outage", timedelta(seconds=9))
    assert reply(example) == []
    example.rows("UPDATE turno.leases SET since = since - interval '61 s' WHERE name = 'sweep'")
    assert [trouble.kind for trouble in reply(example)] == ["silent worker"]


def test_task_failing_for_a_tenant_is_reported(example: ExampleInstallation) -> None:
    for failures in (1, 2):
        example.engine.end_turn("repair", example.one.id, "lock timeout", first=DEAD_AFTER, longest=DEAD_AFTER)
        assert len(reply(example)) == failures - 1
    (trouble,) = reply(example)
    assert (trouble.sentence, trouble.tenant) == (
        "1 maintenance task fails for suc0001; repair: lock timeout",
        "suc0001",
    )
    example.engine.end_turn("repair", example.one.id, None, first=DEAD_AFTER, longest=DEAD_AFTER)
    assert reply(example) == []


def test_missed_moments_are_reported(example: ExampleInstallation) -> None:
    example.engine.announce([Announcement(*KNOWN, "cold", 4)], 20)
    example.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " VALUES ('nightly', %s, '{}', 1, 'ana', 86400, 'UTC', 0, 'skip', now() - interval '3 days')",
        KNOWN[0],
    )
    example.swept_until_now()
    example.sweep()
    (trouble,) = reply(example)
    assert (trouble.kind, trouble.tenant) == ("schedules", "suc0001")
    assert trouble.sentence.startswith("1 schedule of suc0001 left moments out; nightly: 3 moments were missed")
    example.rows("UPDATE job_schedules SET paused_at = now(), next_at = NULL")
    assert reply(example) == []


def test_old_snapshot_is_reported_to_permitted_operators(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turno.store.operator.troubles.OLD_SNAPSHOT", timedelta(0))
    role = sql.Identifier(example.logins.operator)
    how = sql.SQL(" WITH INHERIT TRUE" if example.admin.info.server_version >= 160_000 else "")

    def old(*statements: str) -> list[str]:
        with psycopg.connect(example.url) as session:
            for statement in statements:
                session.execute(statement.encode())
            return [trouble.kind for trouble in reply(example) if trouble.kind == "old snapshot"]

    assert old("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1") == [], "the operator may not see it"
    example.admin.execute(sql.SQL("GRANT pg_read_all_stats TO {}").format(role) + how)
    try:
        assert old("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1") == ["old snapshot"]
        assert old("CREATE TEMP TABLE written (n int)") == ["old snapshot"]
        assert old("SELECT 1") == [], "between two statements it keeps no row"
        assert [trouble.kind for trouble in reply(example)] == [], "it is over"
    finally:
        example.admin.execute(sql.SQL("REVOKE pg_read_all_stats FROM {}").format(role))


@pytest.mark.parametrize("left", ["UPDATE turno.leases SET until = now() - interval '1 s'", "DELETE FROM turno.leases"])
def test_missing_maintenance_is_reported(example: ExampleInstallation, left: str) -> None:
    example.rows(left)
    (trouble,) = reply(example)
    assert trouble.command == "turno maintain"


def test_failures_are_grouped_by_type_and_error(example: ExampleInstallation) -> None:
    end_jobs(example, example.one, failed=2, completed=1)
    end_jobs(example, example.other, failed=1, completed=3)
    end_jobs(example, example.other, failed=3, error="KeyError: #")
    end_jobs(example, example.other, "export", failed=1, completed=99)
    end_jobs(example, example.one, failed=5, error="OSError", ago="61 minutes")
    assert [(trouble.sentence, trouble.tenant, trouble.alert) for trouble in reply(example)] == [
        ("import fails in suc0002: 3 of 7 in the last hour, mostly KeyError: #", "suc0002", True),
        ("import fails in 2 tenants: 3 of 10 in the last hour, mostly TimeoutError: bank did not answer", None, True),
        ("export fails in suc0002: 1 of 100 in the last hour, TimeoutError: bank did not answer", "suc0002", False),
    ]
    assert [trouble.command for trouble in reply(example)][:2] == [
        "turno job list --tenant suc0002 --type import --error KeyError --group-by error",
        "turno job list --all --type import --error TimeoutError --group-by error",
    ]


def test_resolved_failures_are_no_trouble(example: ExampleInstallation) -> None:
    end_jobs(example, example.one, failed=200)
    example.rows(
        "UPDATE turno.dead_letters SET closed_at = now(), closed_as = 'replayed'"
        " WHERE job_id <> (SELECT min(job_id::text)::uuid FROM turno.dead_letters)"
    )
    (trouble,) = reply(example)
    assert trouble.sentence == "import fails in suc0001: 1 of 200 in the last hour, TimeoutError: bank did not answer"
    settle_failures(example)
    assert reply(example) == []


def test_hundred_old_failures_are_reported(example: ExampleInstallation) -> None:
    end_jobs(example, example.one, failed=99, ago="2 hours")
    assert reply(example) == []
    end_jobs(example, example.one, failed=1, ago="2 hours")
    (trouble,) = reply(example)
    assert trouble.sentence == "import fails in suc0001: 100 unresolved jobs, mostly TimeoutError: bank did not answer"
    assert (trouble.kind, trouble.alert) == ("failures", True)


def test_failed_items_of_completed_jobs_are_reported(example: ExampleInstallation) -> None:
    fail_items(example, example.other, done=497, failed=3)
    (trouble,) = reply(example)
    assert trouble.sentence == (
        "items of import fail in suc0002: 3 of 500 in the last hour, mostly ValueError: bad row"
    )
    assert trouble.command == "turno job list --tenant suc0002 --type import --error ValueError --group-by error"


def test_parked_jobs_are_reported(example: ExampleInstallation) -> None:
    worker(example)
    job_id = example.enqueue({"order_ids": [1]})
    example.rows("UPDATE turno.tickets SET run_at = 'infinity', state = 'review' WHERE job_id = %s", job_id)
    (trouble,) = reply(example)
    assert trouble.command == "turno job list --tenant suc0001 --needs-review"


def test_long_wait_of_a_tenant_is_reported(example: ExampleInstallation) -> None:
    worker(example)
    example.enqueue({"order_ids": [1]})
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '6 minutes'")
    (trouble,) = reply(example)
    assert trouble.sentence == "suc0001 waits for its turn with 1 job"
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    (trouble,) = reply(example)
    assert trouble.sentence == "suc0001 is paused with 1 job"
    example.rows("UPDATE turno.tenants SET paused_at = NULL")


def test_jobs_of_a_paused_type_are_no_long_wait(example: ExampleInstallation) -> None:
    worker(example)
    for tenant in (example.one, example.other):
        example.enqueue({"order_ids": [1]}, tenant=tenant)
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '6 minutes'")
    example.rows("INSERT INTO turno.job_types (type, paused_at) VALUES (%s, now())", KNOWN[0])
    (trouble,) = reply(example)
    assert (trouble.sentence, trouble.alert) == ("batch_invoicing is paused with 2 jobs of 2 tenants", False)
    assert trouble.command == "turno type set batch_invoicing --resumed"
