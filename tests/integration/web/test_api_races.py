"""Many requests at once: one job per key, one retry per job, never more than the quota."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

from tests.api import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from werkzeug.test import TestResponse

    from tests.api import Service

CALLERS = 50


def at_once(ask: Callable[[int], TestResponse]) -> list[TestResponse]:
    """Ask from many threads that start together."""
    start = Barrier(CALLERS)

    def send(number: int) -> TestResponse:
        start.wait(timeout=30)
        return ask(number)

    with ThreadPoolExecutor(CALLERS) as threads:
        return list(threads.map(send, range(CALLERS)))


def test_one_key_is_one_job(service: Service) -> None:
    ana = service.caller()
    answers = at_once(lambda _: ana.submit(key="once"))
    assert {answer.status_code for answer in answers} == {202}
    [job_id] = {answer.get_json()["job_id"] for answer in answers}
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers].count("true") == CALLERS - 1
    assert service.rows("SELECT count(*) FROM background_jobs WHERE user_id = %s", ana.user) == [(1,)]
    assert service.rows("SELECT count(*) FROM turno.tickets WHERE job_id = %s", job_id) == [(1,)]
    assert [str(ref.job_id) for ref in service.queue.offered].count(job_id) == 1


def test_one_key_with_two_bodies_is_one_job(service: Service) -> None:
    ana = service.caller()
    answers = at_once(lambda number: ana.submit(key="two", priority="low" if number % 2 else "urgent"))
    assert sorted({answer.status_code for answer in answers}) == [202, 422]
    assert len({answer.get_json()["job_id"] for answer in answers if answer.status_code == 202}) == 1
    assert [answer.status_code for answer in answers].count(422) == CALLERS // 2
    assert service.rows("SELECT count(*) FROM background_jobs WHERE user_id = %s", ana.user) == [(1,)]


def test_the_quota_is_never_exceeded(service: Service) -> None:
    ana, limit = service.caller(), SETTINGS.limits.pending_jobs_per_user
    answers = at_once(lambda _: ana.submit())
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(202), statuses.count(429)) == (limit, CALLERS - limit)
    assert service.rows("SELECT count(*) FROM background_jobs WHERE user_id = %s", ana.user) == [(limit,)]


def test_the_quota_is_never_exceeded_by_retries(service: Service) -> None:
    ana, limit = service.caller(), SETTINGS.limits.pending_jobs_per_user
    first = ana.job()
    ana.post(f"/api/jobs/{first}/cancel")
    # As if more had been submitted and cancelled: one for each caller.
    columns = "type, version, queue, priority, status, finished_at, payload, payload_hash, user_id, max_attempts"
    jobs = service.rows(
        f"INSERT INTO background_jobs ({columns}) SELECT {columns} FROM background_jobs, generate_series(1, %s)"  # noqa: S608 - names above
        " WHERE id = %s RETURNING id",
        CALLERS,
        first,
    )
    answers = at_once(lambda number: ana.post(f"/api/jobs/{jobs[number][0]}/retry"))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(202), statuses.count(429)) == (limit, CALLERS - limit)


def test_one_failed_job_is_retried_once(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.end(job_id)
    operator = service.caller("north", "operator")

    def ask(number: int) -> TestResponse:
        if number % 2:
            return operator.post(f"/api/admin/dead-letters/{job_id}/replay")
        return ana.post(f"/api/jobs/{job_id}/retry")

    answers = at_once(ask)
    assert {answer.status_code for answer in answers} == {202}
    [new] = {answer.get_json()["job_id"] for answer in answers}
    assert [answer.headers.get("Idempotency-Replayed") for answer in answers].count("true") == CALLERS - 1
    assert service.rows("SELECT id::text FROM background_jobs WHERE parent_id = %s", job_id) == [(new,)]
    assert service.rows("SELECT replayed_as::text FROM background_jobs_dead_letter WHERE job_id = %s", job_id) == [
        (new,)
    ]


def test_one_cancellation_ends_a_job_once(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    answers = at_once(lambda _: ana.post(f"/api/jobs/{job_id}/cancel"))
    assert {answer.status_code for answer in answers} == {200}
    assert service.rows("SELECT count(*) FROM notifications WHERE job_id = %s", job_id) == [(1,)]
