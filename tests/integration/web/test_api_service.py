"""The routes around jobs: notifications, dead letters, health; and the service when something is down or off."""

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg_pool import PoolTimeout

from tests.api import Caller, in_an_hour
from tests.greetings import valid_body
from tests.problems import problem_of
from turno.errors import InvalidPayload, PermanentFailure, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask import Response

    from tests.api import Service
    from turno.jobs.handler import JobHandler
    from turno.tenancy.identity.tenant import Tenant


def test_user_is_notified_of_each_end_once_and_reads_it(service: Service) -> None:
    ana = service.caller()
    jobs = [ana.job() for _ in range(3)]
    for job_id in jobs:
        service.end(job_id)
    first = ana.get("/api/notifications?limit=2").get_json()
    assert first["unread"] == 3
    assert [notification["job_id"] for notification in first["notifications"]] == jobs[:0:-1]
    newest = first["notifications"][0]
    assert (newest["kind"], newest["data"]["type"], newest["read_at"]) == ("failed", "greetings", None)
    second = ana.get(f"/api/notifications?limit=2&cursor={first['next_cursor']}").get_json()
    assert ([notification["job_id"] for notification in second["notifications"]], second["next_cursor"]) == (
        jobs[:1],
        None,
    )
    for _ in range(2):
        answer = ana.ask("PATCH", newest["links"]["read"])
        assert answer.get_json() == {"id": newest["id"], "status": "read"}
    unread = ana.get("/api/notifications?unread=true").get_json()
    assert unread["unread"] == 2
    assert [notification["job_id"] for notification in unread["notifications"]] == jobs[1::-1]


def test_a_dead_letter_is_listed_and_replayed_for_its_user(service: Service) -> None:
    ana, operator = service.caller(), service.caller("north", "operator")
    job_id = ana.job()
    service.end(job_id)
    letters = operator.get("/api/admin/dead-letters?limit=200").get_json()["dead_letters"]
    [letter] = [letter for letter in letters if letter["job_id"] == job_id]
    assert (letter["user"], letter["cause"]) == (ana.user, "no attempts left")
    assert letter["error"]["traceback"] == "secret frames"
    answer = operator.post(letter["links"]["replay"])
    assert answer.status_code == 202
    assert ana.get(answer.headers["Location"]).get_json()["parent_id"] == job_id
    waiting = operator.get("/api/admin/dead-letters?limit=200").get_json()["dead_letters"]
    assert job_id not in [letter["job_id"] for letter in waiting]
    replayed = operator.get("/api/admin/dead-letters?replayed=true&limit=200").get_json()["dead_letters"]
    assert [letter["replayed_as"] for letter in replayed if letter["job_id"] == job_id] == [answer.get_json()["job_id"]]


def test_dead_letters_are_paged(service: Service) -> None:
    ana, operator = service.caller("south"), service.caller("south", "operator")
    jobs = [ana.job() for _ in range(3)]
    for job_id in jobs:
        service.end(job_id, tenant="south")
    first = operator.get("/api/admin/dead-letters?limit=2").get_json()
    second = operator.get(f"/api/admin/dead-letters?limit=2&cursor={first['next_cursor']}").get_json()
    result = [letter["job_id"] for page in (first, second) for letter in page["dead_letters"]]
    assert result[:3] == jobs[::-1]


def test_only_a_dead_letter_is_replayed(service: Service) -> None:
    ana, operator = service.caller(), service.caller("north", "operator")
    job_id = ana.job()
    assert ana.post(f"/api/jobs/{job_id}/cancel").status_code == 200
    problem_of(operator.post(f"/api/admin/dead-letters/{job_id}/replay"), 404)


def test_an_operator_cancels_for_a_user(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    assert service.caller("north", "operator").post(f"/api/jobs/{job_id}/cancel").status_code == 200
    assert ana.get(f"/api/jobs/{job_id}").get_json()["reason"] == "cancelled by an operator"


def test_readiness_queries_the_database_and_health_does_not(service: Service) -> None:
    client = service.app.test_client()
    assert client.get("/healthz").get_json() == {"status": "healthy", "alerts": []}
    assert client.get("/readyz").get_json() == {"status": "healthy", "alerts": []}


def test_readiness_names_its_obstacle(service: Service) -> None:
    answer = service.build(readiness=lambda: "Migrations are still running.").test_client().get("/readyz")
    assert problem_of(answer, 503)["detail"] == "Migrations are still running."
    assert "Retry-After" in answer.headers


def down(error: Exception) -> Any:
    @contextmanager
    def connection() -> Iterator[psycopg.Connection[Any]]:
        raise error
        yield

    return connection


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("connection to server at 10.1.2.3 failed: FATAL: secret"),
        PoolTimeout("no connection in time: secret"),
        psycopg.errors.DiskFull("secret"),
        psycopg.errors.AdminShutdown("secret"),
        psycopg.errors.ReadOnlySqlTransaction("secret"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_database_outage_is_reported_at_once(
    service: Service, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    app = service.build(connection=down(error))
    ana = Caller(app, "north")
    for answer in (ana.submit(), ana.get("/api/jobs"), ana.get(f"/api/jobs/{uuid.uuid4()}"), ana.get("/readyz")):
        reply = problem_of(answer, 503)
        assert answer.headers["Retry-After"].isdecimal()
        assert "secret" not in answer.text
        assert reply["instance"] in {record.__dict__.get("error_id") for record in caplog.records}
    assert ana.get("/healthz").status_code == 200


def test_server_fault_hides_details_and_logs_class_and_place(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    app = service.build(connection=down(RuntimeError("SELECT secret FROM t_0123456789ab")))
    answer = Caller(app, "north").get("/api/jobs")
    reply = problem_of(answer, 500)
    assert "secret" not in answer.text
    assert "t_0123456789ab" not in answer.text
    [record] = [record for record in caplog.records if record.__dict__.get("error_id") == reply["instance"]]
    assert re.fullmatch(r"request failed: RuntimeError at test_api_service\.py:\d+", record.getMessage())
    assert "secret" not in caplog.text, "a message may hold as much as a payload"
    assert [other for other in caplog.records if other.levelname == "ERROR"] == [record], "it is logged once"


def test_tokens_and_payloads_are_never_logged(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    ana = service.caller()
    body = {"greetings": [{"to": 1, "words": "canary"}], "day": "2030-01-31"}
    job_id = ana.job(payload=body)
    ana.post("/api/jobs/greetings", json={"payload": body | {"day": "canary"}})
    Caller(service.build(connection=down(RuntimeError("boom: canary"))), "north").submit(payload=body)
    logged = caplog.text + repr([record.__dict__ for record in caplog.records if record.name.startswith("turno.")])
    assert job_id in logged
    assert "canary" not in logged
    assert ana.headers["Authorization"].split()[1] not in logged


def run(result: Any) -> Any:
    def inline(tenant: Tenant, _handler: type[JobHandler[Any]], payload: Any, user: str) -> dict[str, Any]:
        if isinstance(result, Exception):
            raise result
        return {"tenant": tenant.slug, "user": user, "greetings": len(payload["greetings"])}

    return inline


def test_switched_off_the_work_is_done_in_the_request(service: Service) -> None:
    before = service.everything()
    ana = Caller(service.build(inline=run(None)), "north")
    answer = ana.submit()
    assert answer.status_code == 200
    assert answer.get_json() == {
        "status": "completed",
        "result": {"tenant": "north", "user": ana.user, "greetings": 2},
    }
    assert service.everything() == before


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PermanentFailure("The period is closed."), 422),
        (UserError("The period is closed."), 422),
        (ValueError("secret: invalid literal for int()"), 500),
        (InvalidPayload([{"field": "day", "problem": "is closed"}]), 400),
        (RuntimeError("secret"), 500),
        (psycopg.errors.UndefinedTable("secret"), 500),
        (psycopg.OperationalError("secret"), 503),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_failing_service_is_reported_when_switched_off(
    service: Service, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    answer = Caller(service.build(inline=run(error)), "north").submit()
    reply = problem_of(answer, status)
    assert "secret" not in answer.text
    assert "closed" in answer.text or status >= 500
    assert (reply["detail"] == "The period is closed.") == (status == 422)
    assert (reply["instance"] in [getattr(record, "error_id", None) for record in caplog.records]) == (status >= 500)


def test_switched_off_the_door_is_the_same(service: Service) -> None:
    ana = Caller(service.build(inline=run(None)), "north")
    problem_of(ana.submit(run_at=in_an_hour()), 400)
    problem_of(ana.submit(status="completed"), 400)
    problem_of(ana.post("/api/jobs/other", json=valid_body()), 422)


def test_a_stream_that_never_began_leaves_its_place(service: Service) -> None:
    app = service.build()

    @app.after_request
    def fails(_answer: Response) -> Response:
        raise ValueError("after the view")

    assert Caller(app, "north").get("/api/stream").status_code == 500
    assert len(app.extensions["turno"].live) == 0
