"""Two processes that do the same at once: reapers, crons, a reaper and the handler that is just finishing."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from random import Random
from threading import Barrier

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import attempt_steps
from tests.installation import ExampleInstallation
from turno.errors import ClaimLost
from turno.runner.session import HandlerConnection
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import handler_session, service_session

KINDS = (("batch_invoicing", 1),)


def lose_workers(example: ExampleInstallation, number: int) -> None:
    for _ in range(number):
        job_id = example.enqueue({"order_ids": [1]})
        worker = example.engine.start_worker(backend="exec", host="gone", pid=2**22 + 1)
        claim = example.engine.claim_job(worker, job_id, types=KINDS)
        assert claim is not None
        with handler_session(example.logins, claim.login, application="test", kind=HandlerConnection) as session:
            attempt_steps.start(session, claim, "gone")
            psycopg.Connection.close(session)
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s'")


def test_four_crons_at_once_take_each_lost_job_back_once(example: ExampleInstallation) -> None:
    lose_workers(example, 8)
    start = Barrier(4)

    def cron(_number: int) -> dict[str, int]:
        start.wait()
        return example.sweep(reoffer_after=3600)

    with ThreadPoolExecutor(4) as crons:
        counts = list(crons.map(cron, range(4)))
    assert sum(count["rescued"] for count in counts) == 8
    assert example.rows("SELECT DISTINCT crashes, status FROM background_jobs") == [{"crashes": 1, "status": "pending"}]
    assert (
        len(example.rows("SELECT 1 FROM background_job_events WHERE new_status = 'pending' AND old_status IS NOT NULL"))
        == 8
    )


def test_a_cron_that_was_missed_for_a_day_catches_up_once(example: ExampleInstallation) -> None:
    lose_workers(example, 3)
    example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 day'")
    example.rows("UPDATE turno.leases SET until = until - interval '1 day'")
    assert example.sweep(reoffer_after=3600)["rescued"] == 3
    assert example.sweep(reoffer_after=3600)["rescued"] == 0
    assert example.rows("SELECT DISTINCT crashes FROM background_jobs") == [{"crashes": 1}]


@pytest.mark.parametrize("seed", range(20))
def test_of_a_reaper_and_a_finishing_attempt_one_wins(example: ExampleInstallation, seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - a seed, not a secret
    job_id = example.enqueue({"order_ids": [1]})
    worker = example.engine.start_worker(backend="exec", host="test", pid=1)
    claim = example.engine.claim_job(worker, job_id, types=KINDS)
    assert claim is not None
    start = Barrier(2)
    with ExitStack() as stack, ThreadPoolExecutor(2) as both:
        session = handler_session(example.logins, claim.login, application="test", kind=HandlerConnection)
        stack.callback(psycopg.Connection.close, session)
        reaper = stack.enter_context(service_session(example.logins, example.logins.engine, application="reaper"))
        attempt_steps.start(session, claim, "test")
        attempt_steps.begin(session)
        waits = [chance.random() * 0.01, chance.random() * 0.01]

        def finish() -> str:
            start.wait()
            example_pause(session, waits[0])
            try:
                attempt_steps.complete(session, claim, "{}")
                psycopg.Connection.commit(session)
            except (ClaimLost, psycopg.OperationalError):
                return "lost"
            return "completed"

        def reap() -> str:
            start.wait()
            example_pause(reaper, waits[1])
            return Engine.on(reaper).rescue(
                claim.login.schema, job_id, claim.token, cause="test", retry_in=timedelta(0)
            )

        ended, taken = both.submit(finish), both.submit(reap)
        outcome = (ended.result(), taken.result())
    assert outcome in {("completed", "gone"), ("lost", "pending")}
    assert example.job(job_id)["status"] == ("completed" if outcome[0] == "completed" else "pending")
    assert len(example.rows("SELECT 1 FROM notifications")) == (outcome[0] == "completed")


def example_pause(session: psycopg.Connection[tuple[object, ...]], seconds: float) -> None:
    """Wait in the server, on the session that acts next: one order of events for each seed."""
    try:
        session.execute("SELECT pg_sleep(%s)", [seconds])
    except psycopg.OperationalError:
        return


ENDED = st.sampled_from(["completed", "failed", "cancelled"])
JOBS = st.lists(st.tuples(ENDED | st.sampled_from(["pending", "running"]), st.integers(0, 90)), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(jobs=JOBS)
def test_retention_removes_only_older_jobs(example: ExampleInstallation, jobs: list[tuple[str, int]]) -> None:
    example.reset()
    kept = set()
    for status, days in jobs:
        job_id = example.enqueue({"order_ids": [1]})
        ended = status in {"completed", "failed", "cancelled"}
        example.rows(
            "UPDATE background_jobs SET status = %s, attempt = 1, started_at = now(), error = '{}',"
            " created_at = now() - make_interval(days => %s),"
            " finished_at = CASE WHEN %s THEN now() - make_interval(days => %s) END WHERE id = %s",
            status, days, ended, days, job_id,
        )  # fmt: skip
        if status == "failed" and days % 2:
            example.rows(
                "INSERT INTO background_jobs_dead_letter (job_id, type, version, user_id, payload, cause, error,"
                " attempts) SELECT id, type, version, user_id, payload, 'x', '{}', '[]' FROM background_jobs"
                " WHERE id = %s", job_id,
            )  # fmt: skip
            kept.add(job_id)
        if not ended or days < 30:
            kept.add(job_id)
    example.engine.purge(example.one.schema, timedelta(days=30), 1000)
    assert {row["id"] for row in example.rows("SELECT id FROM background_jobs")} == kept
