"""The request limits of a user and a tenant, over all web processes: refused by name, earned back with time."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from flask import Flask

from tests.api import KEY, SETTINGS, Caller, token
from tests.greetings import valid_body
from tests.problems import problem_of
from tests.visitor import Visitor
from turno.settings import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from werkzeug.test import TestResponse

    from tests.api import Service

CALLERS = 60
MANY = 1_000_000
READ = f"/api/notifications/{uuid.uuid4()}/read"


@pytest.fixture(autouse=True)
def unused(service: Service) -> Iterator[None]:
    yield
    service.rows("DELETE FROM rate_limits")


def limited(service: Service, **limits: Any) -> Flask:
    return service.build(settings=replace(SETTINGS, limits=replace(SETTINGS.limits, **limits)), pending_limit=MANY)


def at_once(ask: Callable[[int], TestResponse]) -> list[int]:
    """Ask from many threads that start together; returns the statuses."""
    start = Barrier(CALLERS)

    def send(number: int) -> int:
        start.wait(timeout=30)
        return ask(number).status_code

    with ThreadPoolExecutor(CALLERS) as threads:
        return list(threads.map(send, range(CALLERS)))


def time_passes(service: Service, seconds: int) -> None:
    service.rows("UPDATE rate_limits SET empty_at = empty_at - %s", seconds)


def refused(answer: TestResponse, limit: str, *, within: int) -> None:
    problem = problem_of(answer, 429)
    assert problem["type"].endswith("rate-limit-reached")
    assert problem["limit"] == limit
    assert limit.replace("_", " ").replace(" mb ", " MB ") in problem["detail"]
    assert 1 <= int(answer.headers["Retry-After"]) <= within


# Commands a minute ------------------------------------------------------------------------------------------


def test_commands_of_a_user_are_counted_over_all_web_processes(service: Service) -> None:
    processes = [limited(service, commands_per_minute_per_user=20) for _ in range(2)]
    ana = service.caller()
    began = time.monotonic()
    # For every request, possible or not.
    statuses = at_once(
        lambda number: Caller(processes[number % 2], "north", ana.user).post(
            "/api/jobs/greetings", json=valid_body() if number % 3 else {"no": "payload"}
        )
    )
    earned = int((time.monotonic() - began) / 3)
    assert 20 <= CALLERS - statuses.count(429) <= 20 + earned + 1
    # Every three seconds one is earned: on a crowded machine the first of these may pass.
    more = (Caller(processes[0], "north", ana.user).ask("PATCH", READ) for _ in range(3))
    refused(next(answer for answer in more if answer.status_code == 429), "commands_per_minute_per_user", within=3)


def test_submission_that_the_database_refuses_is_counted(service: Service) -> None:
    ana = Caller(limited(service, commands_per_minute_per_user=1, body_bytes=10_000_000), "north")
    too_large = valid_body()
    too_large["payload"]["note"] = "x" * 4_200_000  # the table takes 4 MB
    assert [ana.post("/api/jobs/greetings", json=too_large).status_code for _ in range(2)] == [400, 429]


def test_only_own_commands_are_counted(service: Service) -> None:
    app = limited(service, commands_per_minute_per_user=1)
    ana, ben = Caller(app, "north"), Caller(app, "north")
    job_id = ana.job()
    for _ in range(3):
        assert ana.get(f"/api/jobs/{job_id}").status_code == 200
        assert problem_of(ana.post(f"/api/jobs/{job_id}/cancel"), 429)
    assert ben.submit().status_code == 202
    assert Caller(app, "south", ana.user).submit().status_code == 202
    operator = Caller(app, "north", roles=("operator",))
    assert {operator.post(f"/api/jobs/{job_id}/cancel").status_code for _ in range(3)} == {200}


def test_refusal_for_the_tenant_costs_the_user_nothing(service: Service) -> None:
    app = limited(service, commands_per_minute_per_user=2, commands_per_minute_per_tenant=3)
    ana, ben = Caller(app, "north"), Caller(app, "north")
    assert [caller.submit().status_code for caller in (ana, ben, ben)] == [202, 202, 202]
    for _ in range(5):
        refused(ana.submit(), "commands_per_minute_per_tenant", within=20)
    assert Caller(app, "south").submit().status_code == 202
    time_passes(service, 20)
    assert ana.submit().status_code == 202
    time_passes(service, 20)
    service.rows("DELETE FROM rate_limits WHERE name LIKE '%%_per_tenant'")
    # Half a minute for a user's one: refused requests have not been counted.
    assert ana.submit().status_code == 202


def test_a_form_of_the_pages_is_a_command(service: Service) -> None:
    visitor = Visitor(limited(service, commands_per_minute_per_user=1))
    visitor.sign_in(None, "north")
    form = {"form": visitor.form_token, "branch": "north"}
    assert visitor.post(f"/jobs/{uuid.uuid4()}/cancel", form).status_code == 404
    answer = visitor.post(f"/jobs/{uuid.uuid4()}/cancel", form)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert "Try again" in answer.text
    assert visitor.get("/?branch=north").status_code == 200


def test_no_limit_is_no_limit(service: Service) -> None:
    names = ("commands_per_minute", "jobs_per_day", "payload_mb_per_day")
    nothing: dict[str, Any] = {f"{name}_per_{subject}": 0 for name in names for subject in ("user", "tenant")}
    app = service.build(settings=replace(SETTINGS, limits=Limits(pending_jobs_per_user=0, **nothing)))
    ana = Caller(app, "north")
    assert {ana.submit().status_code for _ in range(SETTINGS.limits.pending_jobs_per_user + 1)} == {202}
    assert service.rows("SELECT 1 FROM rate_limits") == []


def test_clock_set_back_locks_no_user_out(service: Service) -> None:
    ana = Caller(limited(service, commands_per_minute_per_user=2), "north")
    assert ana.submit().status_code == 202
    service.rows("UPDATE rate_limits SET empty_at = empty_at + 31000000 WHERE name = 'commands_per_minute_per_user'")
    refused(ana.submit(), "commands_per_minute_per_user", within=30)
    time_passes(service, 30)
    assert ana.submit().status_code == 202


# Jobs and payloads a day ------------------------------------------------------------------------------------


def test_jobs_of_a_day_are_counted_exactly_by_many_at_once(service: Service) -> None:
    processes = [limited(service, jobs_per_day_per_user=20) for _ in range(2)]
    ana = service.caller()
    statuses = at_once(lambda number: Caller(processes[number % 2], "north", ana.user).submit())
    assert (statuses.count(202), statuses.count(429)) == (20, CALLERS - 20)
    assert service.rows("SELECT count(*) FROM background_jobs WHERE user_id = %s", ana.user) == [(20,)]


def test_a_tenant_s_jobs_are_counted_over_its_users(service: Service) -> None:
    app = limited(service, jobs_per_day_per_tenant=30)
    statuses = at_once(lambda _: Caller(app, "north").submit())
    assert (statuses.count(202), statuses.count(429)) == (30, CALLERS - 30)
    assert Caller(app, "south").submit().status_code == 202


def test_lost_race_for_one_limit_costs_no_limit(service: Service) -> None:
    limits = '{"jobs_per_day_per_user": 2, "jobs_per_day_per_tenant": 3}'
    take = "SELECT exceeded FROM turno.rate_take(1, %s, 86400, %s, NULL, 2)"
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
    with psycopg.connect(service.url) as first, ThreadPoolExecutor(1) as thread:
        assert first.execute(take, ("ben", limits)).fetchall() == [(None,)]
        second = thread.submit(service.rows, take, "ana", limits)
        while not service.rows(waiting, "SELECT exceeded FROM turno.rate_take%"):
            time.sleep(0.01)
        first.commit()
        assert second.result(timeout=30) == [("jobs_per_day_per_tenant",)]
    [(left,)] = service.rows("SELECT empty_at <= extract(epoch FROM now()) FROM rate_limits WHERE subject = 'ana'")
    assert left


def test_refused_job_leaves_nothing_and_passes_later(service: Service) -> None:
    ana = Caller(limited(service, jobs_per_day_per_user=1), "north")
    assert ana.submit().status_code == 202
    before = service.everything()
    refused(ana.submit(), "jobs_per_day_per_user", within=86_400)
    assert service.everything() == before
    time_passes(service, 86_400)
    assert ana.submit().status_code == 202


def test_a_replay_is_answered_and_not_counted(service: Service) -> None:
    ana = Caller(limited(service, jobs_per_day_per_user=2), "north")
    first = ana.submit(key="once")
    for _ in range(5):
        assert ana.submit(key="once").get_json() == first.get_json()
    assert problem_of(ana.submit(key="once", priority="low"), 422)
    assert ana.submit().status_code == 202
    refused(ana.submit(), "jobs_per_day_per_user", within=43_200)
    assert ana.submit(key="once").headers["Idempotency-Replayed"] == "true"


def test_a_retry_is_a_job_with_a_payload(service: Service) -> None:
    app = limited(service, jobs_per_day_per_user=2, payload_mb_per_day_per_user=1)
    ana, operator = Caller(app, "north"), Caller(app, "north", roles=("operator",))
    job_id = ana.job()
    service.end(job_id)
    taken = (
        "SELECT empty_at - extract(epoch FROM now())::float8 FROM rate_limits"
        " WHERE name = 'payload_mb_per_day_per_user' AND subject = %s"
    )
    [(single,)] = service.rows(taken, ana.user)
    new = ana.post(f"/api/jobs/{job_id}/retry").get_json()["job_id"]
    assert service.rows(taken, ana.user)[0][0] > 1.5 * single
    service.end(new)
    for caller, way in ((ana, f"/api/jobs/{new}/retry"), (operator, f"/api/admin/dead-letters/{new}/replay")):
        refused(caller.post(way), "jobs_per_day_per_user", within=43_200)
    assert service.rows("SELECT 1 FROM background_jobs WHERE parent_id = %s", new) == []
    assert ana.post(f"/api/jobs/{job_id}/retry").headers["Idempotency-Replayed"] == "true"


def large(people: int) -> dict[str, Any]:
    return valid_body(payload={"greetings": [{"to": n, "words": "x" * 90} for n in range(people)], "day": "2030-01-31"})


def test_bytes_of_payloads_are_counted_for_user_and_tenant(service: Service) -> None:
    limits = {"body_bytes": 2_000_000, "payload_mb_per_day_per_user": 1}
    app = limited(service, **limits, payload_mb_per_day_per_tenant=2)
    ana, ben, carla = (Caller(app, "north") for _ in range(3))
    path = "/api/jobs/greetings"
    assert ana.post(path, json=large(5000)).status_code == 202  # some 750 KB as jsonb
    before = service.everything()
    refused(ana.post(path, json=large(5000)), "payload_mb_per_day_per_user", within=86_400)
    assert service.everything() == before
    assert ana.submit().status_code == 202, "a small one fits"
    assert ben.post(path, json=large(5000)).status_code == 202
    refused(carla.post(path, json=large(5000)), "payload_mb_per_day_per_tenant", within=86_400)
    assert Caller(app, "south").post(path, json=large(5000)).status_code == 202


def test_one_payload_beyond_the_whole_limit_takes_all_of_it(service: Service) -> None:
    ana = Caller(limited(service, body_bytes=2_000_000, payload_mb_per_day_per_user=1), "north")
    assert ana.post("/api/jobs/greetings", json=large(9000)).status_code == 202
    refused(ana.submit(), "payload_mb_per_day_per_user", within=86_400)


def test_jobs_within_the_request_are_counted_too(service: Service) -> None:
    settings = replace(
        SETTINGS, limits=replace(SETTINGS.limits, jobs_per_day_per_user=2, commands_per_minute_per_user=3)
    )
    ana = Caller(service.build(settings=settings, inline=lambda *_: {"done": 1}), "north")
    assert [ana.submit().status_code for _ in range(2)] == [200, 200]
    refused(ana.submit(), "jobs_per_day_per_user", within=43_200)
    refused(ana.submit(), "commands_per_minute_per_user", within=20)


def test_sweep_forgets_exactly_the_earned_limits(service: Service) -> None:
    app = limited(service)
    early, late = Caller(app, "north"), Caller(app, "north")
    assert early.submit().status_code == 202
    time_passes(service, 86_401)
    assert late.submit().status_code == 202
    service.rows("SELECT prune('2 days', '30 days', 1000)")
    assert sorted(service.rows("SELECT DISTINCT subject FROM rate_limits")) == sorted([("",), (late.user,)])


# Wrong tokens -----------------------------------------------------------------------------------------------


def test_wrong_tokens_count_by_address_and_right_ones_pass(service: Service) -> None:
    app = limited(service, wrong_tokens_per_minute=5)

    def ask(authorization: str, address: str = "192.0.2.7") -> TestResponse:
        headers = {"Authorization": f"Bearer {authorization}", "X-Schema": "north"}
        return app.test_client().get("/api/jobs", headers=headers, environ_base={"REMOTE_ADDR": address})

    right, forged = token("ana", "north"), token("ana", "north")[:-4] + "AAAA"
    expired = token("ana", "north", exp=int(time.time()) - 1000)
    assert KEY not in forged
    assert [ask(forged).status_code for _ in range(5)] == [401] * 5
    answer = ask(forged)
    assert problem_of(answer, 429)["limit"] == "wrong_tokens_per_minute"
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    visitor = Visitor(app)
    assert ask(right).status_code == 200
    assert ask(expired).status_code == 401
    assert ask(forged, "192.0.2.8").status_code == 401
    # The sign-in form and the cookie count as well.
    signing_in = [visitor.post("/sign-in", {"token": forged}).status_code for _ in range(6)]
    assert signing_in == [401] * 5 + [429]
