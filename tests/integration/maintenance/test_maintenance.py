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


def state(world: ExampleInstallation) -> list[Any]:
    return [
        world.rows("SELECT * FROM background_jobs ORDER BY id"),
        world.rows("SELECT * FROM background_job_events ORDER BY id"),
        world.rows("SELECT * FROM turno.tickets ORDER BY job_id"),
        world.rows("SELECT * FROM turno.workers ORDER BY id"),
        world.rows("SELECT * FROM notifications ORDER BY id"),
        world.rows("SELECT * FROM turno.outcomes ORDER BY at"),
    ]


@pytest.fixture(autouse=True)
def no_offers(world: ExampleInstallation) -> None:
    """Nothing is launched: every slot of this host is beyond the limit of waiting time."""
    world.extra["TURNO_RUN_FOLDER"] = str(world.folder / "no-slots")


def sweep(world: ExampleInstallation, *, dry_run: bool = False) -> dict[str, int]:
    counts = world.sweep(dry_run=dry_run, reoffer_after=3600)
    for statistics in ("counted", "deliveries", "pruned"):  # see test_statistics.py
        counts.pop(statistics)
    return counts


def lose_a_worker(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    worker = world.engine.start_worker(backend="exec", host="gone", pid=2**22 + 1)
    assert world.engine.claim_job(worker, job_id, types=[("batch_invoicing", 1)])
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s'")


def be_due(world: ExampleInstallation) -> None:
    world.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1))
    world.time_passes()


def lose_a_ticket(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    world.rows("DELETE FROM turno.tickets WHERE job_id = %s", job_id)


def leave_a_ticket_behind(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    world.rows("DELETE FROM background_jobs WHERE id = %s", job_id)


def expire(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]}, expires_at=datetime.now(UTC) + timedelta(hours=1))
    world.rows("UPDATE background_jobs SET expires_at = now() - interval '1 s' WHERE id = %s", job_id)


def grow_old(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    world.cancel(job_id)
    world.rows("UPDATE background_jobs SET finished_at = now() - interval '31 days' WHERE id = %s", job_id)
    world.rows("UPDATE turno.outcome_batches SET at = now() - interval '31 days'")


def test_retention_continues_past_an_unreadable_tenant(world: ExampleInstallation, tmp_path: Path) -> None:
    (tmp_path / world.one.schema).touch()  # no folder
    other = world.tenants["suc0002"]
    world.enqueue({"order_ids": [1]}, tenant=other)
    world.rows("DELETE FROM turno.tickets")
    world.rows(
        "UPDATE background_jobs SET status = 'cancelled', finished_at = now() - interval '31 days'", tenant=other
    )
    with psycopg.connect(world.url) as locking:
        locking.execute(f'LOCK TABLE "{world.one.schema}".background_jobs')
        with pytest.raises(MaintenanceFailed, match="suc0001"):
            world.sweep(TURNO_FILES_FOLDER=str(tmp_path))
    assert world.rows("SELECT FROM background_jobs", tenant=other) == []
    failed = {row["task"] for row in world.rows("SELECT task FROM turno.tenant_failures")}
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
def test_pass_repairs_its_rows_once(world: ExampleInstallation, damage: Any, counted: str) -> None:
    damage(world)
    before = state(world)
    assert sweep(world, dry_run=True) == NOTHING | {counted: 1}
    assert state(world) == before
    assert sweep(world) == NOTHING | {counted: 1}
    assert sweep(world) == NOTHING


def test_a_live_worker_s_job_is_left_alone_however_old(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    worker = world.engine.start_worker(backend="exec", host="here", pid=1)
    assert world.engine.claim_job(worker, job_id, types=[("batch_invoicing", 1)])
    world.rows("UPDATE turno.workers SET started_at = now() - interval '1 day', alive_at = now() - interval '25 s'")
    world.rows("UPDATE turno.tickets SET run_at = now() - interval '1 day'")
    assert sweep(world) == NOTHING


def test_a_running_job_without_a_ticket_waits_once_more(world: ExampleInstallation) -> None:
    world.odd = True
    job_id = world.enqueue({"order_ids": [1]})
    world.rows("UPDATE background_jobs SET status = 'running', attempt = 1, started_at = now() WHERE id = %s", job_id)
    world.rows("DELETE FROM turno.tickets WHERE job_id = %s", job_id)
    assert sweep(world)["repaired"] == 1
    assert world.job(job_id)["status"] == "pending"
    assert world.ticket(job_id) is not None


def test_unreplayed_dead_letter_outlives_retention(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    world.rows(
        "UPDATE background_jobs SET status = 'failed', error = '{}', finished_at = now() - interval '90 days'"
        " WHERE id = %s",
        job_id,
    )
    world.rows("DELETE FROM turno.tickets")
    world.rows(
        "INSERT INTO background_jobs_dead_letter (job_id, type, version, user_id, payload, cause, error, attempts)"
        " SELECT id, type, version, user_id, payload, 'x', '{}', '[]' FROM background_jobs"
    )
    assert sweep(world) == NOTHING
    assert world.retry(job_id)["verdict"] == "accepted"
    assert sweep(world)["purged"] == 1


def test_log_lines_are_purged_with_their_job(world: ExampleInstallation) -> None:
    grow_old(world)
    (old,) = world.rows("SELECT id FROM background_jobs")
    young = world.enqueue({"order_ids": [1]})
    lines = [LoggedLine(job, 1, number, 1.5e9, "INFO", "shop", f"line {number}")
             for job in (old["id"], young) for number in (1, 2, 3)]  # fmt: skip
    for _ in range(2):  # a lost answer, and it is sent again
        world.engine.put_logs(world.one.schema, lines, keep=2)
    kept = "SELECT DISTINCT job_id, number FROM background_job_logs ORDER BY number"
    assert {(row["job_id"], row["number"]) for row in world.rows(kept)} == {
        (job, number) for job in (old["id"], young) for number in (2, 3)
    }
    assert sweep(world)["purged"] == 1
    world.engine.put_logs(world.one.schema, lines, keep=2)
    assert {row["job_id"] for row in world.rows(kept)} == {young}


def test_pending_and_running_jobs_are_never_purged(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    world.rows("UPDATE background_jobs SET created_at = now() - interval '900 days' WHERE id = %s", job_id)
    assert sweep(world)["purged"] == 0
    assert world.job(job_id)["status"] == "pending"


def test_a_job_that_is_being_claimed_does_not_expire(world: ExampleInstallation) -> None:
    expire(world)
    (job,) = world.rows("SELECT id FROM background_jobs")
    worker = world.engine.start_worker(backend="exec", host="here", pid=1)
    held = world.engine.claim_job(worker, job["id"], types=[("batch_invoicing", 1)])
    assert held
    assert sweep(world)["expired"] == 0
    assert world.job(job["id"])["status"] == "pending"
    with handler_session(world.logins, held.login, application="test", kind=psycopg.Connection) as session:
        assert attempt_steps.start(session, held, "test").expired


def test_limits_that_are_earned_back_are_forgotten(world: ExampleInstallation) -> None:
    world.admin.execute(
        "INSERT INTO turno.rate_limits (tenant_id, name, subject, empty_at)"
        " VALUES (1, 'jobs_per_day_per_user', 'ana', 0), (1, 'jobs_per_day_per_user', 'eva', 'inf')"
    )
    sweep(world, dry_run=True)
    assert len(world.rows("SELECT 1 FROM turno.rate_limits")) == 2
    sweep(world)
    assert world.rows("SELECT subject FROM turno.rate_limits") == [{"subject": "eva"}]


@pytest.fixture
def queue() -> RecordingQueue:
    return RecordingQueue()


@pytest.fixture
def passes(world: ExampleInstallation, queue: RecordingQueue) -> Iterator[Maintenance]:
    """The passes over a queue that only remembers; a job is offered again after a minute."""
    passes = passes_of(world, queue)
    yield passes
    passes.close()


def passes_of(world: ExampleInstallation, queue: RecordingQueue, *, dry_run: bool = False) -> Maintenance:
    minute, month = timedelta(minutes=1), timedelta(days=30)
    engine = Engine(lambda: service_session(world.logins, world.logins.engine, application="test"))
    terms = Terms(dead_after=minute, reoffer_after=minute, retention=month)
    return Maintenance(
        engine=engine,
        queue=queue,
        registry=build_registry(),
        terms=terms,
        dry_run=dry_run,
    )


def test_full_tenant_does_not_block_offers_of_another(
    world: ExampleInstallation, passes: Maintenance, queue: RecordingQueue
) -> None:
    queue.useful, queue.full = 3, {"suc0001"}
    for _ in range(5):
        world.enqueue({"order_ids": [1]})
    others = {world.enqueue({"order_ids": [1]}, tenant=world.other) for _ in range(2)}
    wait_long(world)
    assert passes.offer() == 2
    assert {ref.job_id for ref in queue.offered} == others
    assert len(queue.offered) == 2


def wait_long(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tickets SET run_at = now() - interval '61 s' WHERE state = 'ready'")


def test_untaken_job_is_offered_again(world: ExampleInstallation, passes: Maintenance, queue: RecordingQueue) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    assert passes.run_once() == NOTHING | {"counted": 0, "deliveries": 0, "pruned": 0}
    wait_long(world)
    with closing(passes_of(world, queue, dry_run=True)) as dry:
        assert dry.run_once() == NOTHING | {"counted": 0, "deliveries": 0, "pruned": 0, "offered": 1}
    assert queue.offered == []
    assert passes.run_once() == NOTHING | {"counted": 0, "deliveries": 0, "pruned": 0, "offered": 1}
    assert queue.offered == [JobRef("suc0001", job_id)]


def test_sweep_registers_the_handlers(world: ExampleInstallation, passes: Maintenance) -> None:
    told = "SELECT version, queue, max_attempts, pending_limit FROM turno.handlers WHERE type = 'batch_invoicing'"
    world.rows("DELETE FROM turno.handlers")
    passes.run_leased()
    (known,) = world.rows(told)
    assert known == {"version": 1, "queue": "cold", "max_attempts": 4, "pending_limit": 20}
    newer = [Announcement("batch_invoicing", 2, "hot", 3)]
    world.engine.announce(newer, 20)
    passes.run_once()
    assert world.rows(told)[0]["version"] == 2, "an older release took back the notice of a newer one"
    Engine.on(world.admin).announce([Announcement("batch_invoicing", 1, "hot", 3)], 20, replace_newer=True)
    assert world.rows(told)[0]["version"] == 1, "turno db migrate after a rollback"


def test_expired_job_has_a_reason(world: ExampleInstallation) -> None:
    expire(world)
    sweep(world)
    (job,) = world.rows("SELECT * FROM background_jobs")
    assert (job["status"], job["reason"], job["attempt"]) == ("cancelled", "expired", 0)
    assert world.ticket(job["id"]) is None
    assert len(world.rows("SELECT 1 FROM notifications")) == 1


def test_unserved_backend_jobs_move_to_the_served_one(world: ExampleInstallation) -> None:
    world.backend = "pool"
    stranded = world.enqueue({"order_ids": [1]})
    world.rows("UPDATE turno.tickets SET run_at = run_at - interval '2 hours'")
    fresh = world.enqueue({"order_ids": [1]})
    world.backend = "exec"
    assert sweep(world, dry_run=True)["moved"] == 1
    assert sweep(world)["moved"] == 1
    backends = {job_id: (world.ticket(job_id) or {})["backend"] for job_id in (stranded, fresh)}
    assert backends == {stranded: "exec", fresh: "pool"}


def test_a_sweep_that_does_nothing_logs_nothing(world: ExampleInstallation, caplog: pytest.LogCaptureFixture) -> None:
    world.sweep()
    with caplog.at_level(logging.INFO, logger="turno.maintenance"):
        world.sweep()
    assert [record for record in caplog.records if record.getMessage() == "maintenance"] == []


def test_maintenance_analyzes_a_table_that_grew(world: ExampleInstallation) -> None:
    known = "SELECT reltuples FROM pg_class WHERE oid = 'turno.outcome_batches'::regclass"
    world.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, jobs, wait_ms)"
        " SELECT %s, 'batch_invoicing', 'completed', ARRAY[gen_random_uuid()], ARRAY[1] FROM generate_series(1, 30000)",
        world.one.id,
    )
    world.sweep(reoffer_after=3600)
    assert world.rows(known)[0]["reltuples"] >= 30000
