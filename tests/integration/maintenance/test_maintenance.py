"""Every pass of cron: its repairs, a dry run without changes, and a second run without effect."""

import logging
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from handlers import build_registry
from tests import attempt_steps
from tests.fakes import RecordingQueue
from tests.installation import ExampleInstallation
from turno.jobs.job import JobRef
from turno.maintenance.tasks import Maintenance, MaintenanceFailed, Terms
from turno.store.engine.announcements import Announcement
from turno.store.engine.engine import Engine, LoggedLine
from turno.tenancy.identity.session import handler_session, service_session

NOTHING = {
    "rescued": 0,
    "scheduled": 0,
    "schedules repaired": 0,
    "events purged": 0,
    "files purged": 0,
    "promoted": 0,
    "repaired": 0,
    "expired": 0,
    "purged": 0,
    "moved": 0,
    "offered": 0,
    "unserved": 0,
}


def state(example: ExampleInstallation) -> list[Any]:
    return [
        example.rows("SELECT * FROM background_jobs ORDER BY id"),
        example.rows("SELECT * FROM background_job_events ORDER BY id"),
        example.rows("SELECT * FROM turno.tickets ORDER BY job_id"),
        example.rows("SELECT * FROM turno.workers ORDER BY id"),
        example.rows("SELECT * FROM notifications ORDER BY id"),
        example.rows("SELECT * FROM turno.outcomes ORDER BY at"),
    ]


@pytest.fixture(autouse=True)
def no_offers(example: ExampleInstallation) -> None:
    """Nothing is launched: every slot of this host is beyond the limit of waiting time."""
    example.extra["TURNO_RUN_FOLDER"] = str(example.folder / "no-slots")


def sweep(example: ExampleInstallation, *, dry_run: bool = False) -> dict[str, int]:
    counts = example.sweep(dry_run=dry_run, reoffer_after=3600)
    for statistics in ("counted", "deliveries", "pruned"):  # see test_statistics.py
        counts.pop(statistics)
    return counts


def lose_a_worker(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    worker = example.engine.start_worker(backend="exec", host="gone", pid=2**22 + 1)
    assert example.engine.claim_job(worker, job_id, types=[("batch_invoicing", 1)])
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s'")


def be_due(example: ExampleInstallation) -> None:
    example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1))
    example.time_passes()


def lose_a_ticket(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.rows("DELETE FROM turno.tickets WHERE job_id = %s", job_id)


def leave_a_ticket_behind(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.rows("DELETE FROM background_jobs WHERE id = %s", job_id)


def expire(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]}, expires_at=datetime.now(UTC) + timedelta(hours=1))
    example.rows("UPDATE background_jobs SET expires_at = now() - interval '1 s' WHERE id = %s", job_id)


def grow_old(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.cancel(job_id)
    example.rows("UPDATE background_jobs SET finished_at = now() - interval '31 days' WHERE id = %s", job_id)
    example.rows("UPDATE turno.outcome_batches SET at = now() - interval '31 days'")


def test_retention_continues_past_an_unreadable_tenant(example: ExampleInstallation, tmp_path: Path) -> None:
    (tmp_path / example.one.schema).touch()  # no folder
    other = example.tenants["suc0002"]
    example.enqueue({"order_ids": [1]}, tenant=other)
    example.rows("DELETE FROM turno.tickets")
    example.rows(
        "UPDATE background_jobs SET status = 'cancelled', finished_at = now() - interval '31 days'", tenant=other
    )
    with psycopg.connect(example.url) as locking:
        locking.execute(f'LOCK TABLE "{example.one.schema}".background_jobs')
        with pytest.raises(MaintenanceFailed, match="suc0001"):
            example.sweep(TURNO_FILES_FOLDER=str(tmp_path))
    assert example.rows("SELECT FROM background_jobs", tenant=other) == []
    failed = {row["task"] for row in example.rows("SELECT task FROM turno.tenant_failures")}
    assert {"repair", "expire", "purge jobs", "purge folders"} <= failed


@pytest.mark.parametrize(
    ("damage", "counted"),
    [
        (lose_a_worker, "rescued"),
        (be_due, "promoted"),
        (lose_a_ticket, "repaired"),
        (leave_a_ticket_behind, "repaired"),
        (expire, "expired"),
        (grow_old, "purged"),
    ],
)
def test_pass_repairs_its_rows_once(example: ExampleInstallation, damage: Any, counted: str) -> None:
    damage(example)
    before = state(example)
    assert sweep(example, dry_run=True) == NOTHING | {counted: 1}
    assert state(example) == before
    assert sweep(example) == NOTHING | {counted: 1}
    assert sweep(example) == NOTHING


def test_a_live_worker_s_job_is_left_alone_however_old(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    worker = example.engine.start_worker(backend="exec", host="here", pid=1)
    assert example.engine.claim_job(worker, job_id, types=[("batch_invoicing", 1)])
    example.rows("UPDATE turno.workers SET started_at = now() - interval '1 day', alive_at = now() - interval '25 s'")
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '1 day'")
    assert sweep(example) == NOTHING


def test_a_running_job_without_a_ticket_waits_once_more(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"order_ids": [1]})
    example.rows("UPDATE background_jobs SET status = 'running', attempt = 1, started_at = now() WHERE id = %s", job_id)
    example.rows("DELETE FROM turno.tickets WHERE job_id = %s", job_id)
    assert sweep(example)["repaired"] == 1
    assert example.job(job_id)["status"] == "pending"
    assert example.ticket(job_id) is not None


def test_unreplayed_dead_letter_outlives_retention(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.rows(
        "UPDATE background_jobs SET status = 'failed', error = '{}', finished_at = now() - interval '90 days'"
        " WHERE id = %s",
        job_id,
    )
    example.rows("DELETE FROM turno.tickets")
    example.rows(
        "INSERT INTO background_jobs_dead_letter (job_id, type, version, user_id, payload, cause, error, attempts)"
        " SELECT id, type, version, user_id, payload, 'x', '{}', '[]' FROM background_jobs"
    )
    assert sweep(example) == NOTHING
    assert example.retry(job_id)["verdict"] == "accepted"
    assert sweep(example)["purged"] == 1


def test_log_lines_are_purged_with_their_job(example: ExampleInstallation) -> None:
    grow_old(example)
    (old,) = example.rows("SELECT id FROM background_jobs")
    young = example.enqueue({"order_ids": [1]})
    lines = [LoggedLine(job, 1, number, 1.5e9, "INFO", "shop", f"line {number}")
             for job in (old["id"], young) for number in (1, 2, 3)]  # fmt: skip
    for _ in range(2):  # a lost answer, and it is sent again
        example.engine.put_logs(example.one.schema, lines, keep=2)
    kept = "SELECT DISTINCT job_id, number FROM background_job_logs ORDER BY number"
    assert {(row["job_id"], row["number"]) for row in example.rows(kept)} == {
        (job, number) for job in (old["id"], young) for number in (2, 3)
    }
    assert sweep(example)["purged"] == 1
    example.engine.put_logs(example.one.schema, lines, keep=2)
    assert {row["job_id"] for row in example.rows(kept)} == {young}


def test_pending_and_running_jobs_are_never_purged(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.rows("UPDATE background_jobs SET created_at = now() - interval '900 days' WHERE id = %s", job_id)
    assert sweep(example)["purged"] == 0
    assert example.job(job_id)["status"] == "pending"


def test_a_job_that_is_being_claimed_does_not_expire(example: ExampleInstallation) -> None:
    expire(example)
    (job,) = example.rows("SELECT id FROM background_jobs")
    worker = example.engine.start_worker(backend="exec", host="here", pid=1)
    claim = example.engine.claim_job(worker, job["id"], types=[("batch_invoicing", 1)])
    assert claim
    assert sweep(example)["expired"] == 0
    assert example.job(job["id"])["status"] == "pending"
    with handler_session(example.logins, claim.login, application="test", kind=psycopg.Connection) as session:
        assert attempt_steps.start(session, claim, "test").expired


def test_limits_that_are_earned_back_are_forgotten(example: ExampleInstallation) -> None:
    example.admin.execute(
        "INSERT INTO turno.rate_limits (tenant_id, name, subject, empty_at)"
        " VALUES (1, 'jobs_per_day_per_user', 'ana', 0), (1, 'jobs_per_day_per_user', 'eva', 'inf')"
    )
    sweep(example, dry_run=True)
    assert len(example.rows("SELECT 1 FROM turno.rate_limits")) == 2
    sweep(example)
    assert example.rows("SELECT subject FROM turno.rate_limits") == [{"subject": "eva"}]


@pytest.fixture
def queue() -> RecordingQueue:
    return RecordingQueue()


@pytest.fixture
def passes(example: ExampleInstallation, queue: RecordingQueue) -> Iterator[Maintenance]:
    """The passes over a queue that only remembers; a job is offered again after a minute."""
    passes = passes_of(example, queue)
    yield passes
    passes.close()


def passes_of(example: ExampleInstallation, queue: RecordingQueue, *, dry_run: bool = False) -> Maintenance:
    minute, month = timedelta(minutes=1), timedelta(days=30)
    engine = Engine(lambda: service_session(example.logins, example.logins.engine, application="test"))
    terms = Terms(dead_after=minute, reoffer_after=minute, retention=month)
    return Maintenance(
        engine=engine,
        queue=queue,
        registry=build_registry(),
        terms=terms,
        dry_run=dry_run,
    )


def test_full_tenant_does_not_block_offers_of_another(
    example: ExampleInstallation, passes: Maintenance, queue: RecordingQueue
) -> None:
    queue.useful, queue.full = 3, {"suc0001"}
    for _ in range(5):
        example.enqueue({"order_ids": [1]})
    others = {example.enqueue({"order_ids": [1]}, tenant=example.other) for _ in range(2)}
    wait_long(example)
    assert passes.offer() == 2
    assert {ref.job_id for ref in queue.offered} == others
    assert len(queue.offered) == 2


def wait_long(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '61 s' WHERE state = 'ready'")


def test_untaken_job_is_offered_again(example: ExampleInstallation, passes: Maintenance, queue: RecordingQueue) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    assert passes.run_once() == NOTHING | {"counted": 0, "deliveries": 0, "pruned": 0}
    wait_long(example)
    with closing(passes_of(example, queue, dry_run=True)) as dry:
        assert dry.run_once() == NOTHING | {"counted": 0, "deliveries": 0, "pruned": 0, "offered": 1}
    assert queue.offered == []
    assert passes.run_once() == NOTHING | {"counted": 0, "deliveries": 0, "pruned": 0, "offered": 1}
    assert queue.offered == [JobRef("suc0001", job_id)]


def test_sweep_registers_the_handlers(example: ExampleInstallation, passes: Maintenance) -> None:
    reply = "SELECT version, queue, max_attempts, pending_limit FROM turno.handlers WHERE type = 'batch_invoicing'"
    example.rows("DELETE FROM turno.handlers")
    passes.run_leased()
    (known,) = example.rows(reply)
    assert known == {"version": 1, "queue": "cold", "max_attempts": 4, "pending_limit": 20}
    newer = [Announcement("batch_invoicing", 2, "hot", 3)]
    example.engine.announce(newer, 20)
    passes.run_once()
    assert example.rows(reply)[0]["version"] == 2, "an older release took back the notice of a newer one"
    Engine.on(example.admin).announce([Announcement("batch_invoicing", 1, "hot", 3)], 20, replace_newer=True)
    assert example.rows(reply)[0]["version"] == 1, "turno db migrate after a rollback"


def test_rescue_needs_no_announcement(example: ExampleInstallation, passes: Maintenance) -> None:
    """A frozen process may hold the rows that an announcement changes."""
    passes.run_once()
    example.engine.start_worker(backend="pool", host="away", pid=7, types=[("batch_invoicing", 1)], queues=None)
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '1 hour'")
    example.rows("UPDATE turno.handlers SET pending_limit = 1")
    with psycopg.connect(example.url) as frozen:
        frozen.execute("UPDATE turno.handlers SET pending_limit = 2")
        with pytest.raises(MaintenanceFailed, match=r"announced: .*lock timeout"):
            passes.run_once()
        frozen.rollback()
    assert example.rows("SELECT FROM turno.workers") == []


def test_expired_job_has_a_reason(example: ExampleInstallation) -> None:
    expire(example)
    sweep(example)
    (job,) = example.rows("SELECT * FROM background_jobs")
    assert (job["status"], job["reason"], job["attempt"]) == ("cancelled", "expired", 0)
    assert example.ticket(job["id"]) is None
    assert len(example.rows("SELECT 1 FROM notifications")) == 1


def test_unserved_backend_jobs_move_to_the_served_one(example: ExampleInstallation) -> None:
    example.backend = "pool"
    stranded = example.enqueue({"order_ids": [1]})
    example.rows("UPDATE turno.tickets SET run_at = run_at - interval '2 hours'")
    fresh = example.enqueue({"order_ids": [1]})
    example.backend = "exec"
    assert sweep(example, dry_run=True)["moved"] == 1
    assert sweep(example)["moved"] == 1
    backends = {job_id: (example.ticket(job_id) or {})["backend"] for job_id in (stranded, fresh)}
    assert backends == {stranded: "exec", fresh: "pool"}


def test_a_sweep_that_does_nothing_logs_nothing(example: ExampleInstallation, caplog: pytest.LogCaptureFixture) -> None:
    example.sweep()
    with caplog.at_level(logging.INFO, logger="turno.maintenance"):
        example.sweep()
    assert [record for record in caplog.records if record.getMessage() == "maintenance"] == []


def test_maintenance_analyzes_a_table_that_grew(example: ExampleInstallation) -> None:
    known = "SELECT reltuples FROM pg_class WHERE oid = 'turno.outcome_batches'::regclass"
    example.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, jobs, wait_ms)"
        " SELECT %s, 'batch_invoicing', 'completed', ARRAY[gen_random_uuid()], ARRAY[1] FROM generate_series(1, 30000)",
        example.one.id,
    )
    example.sweep(reoffer_after=3600)
    assert example.rows(known)[0]["reltuples"] >= 30000
