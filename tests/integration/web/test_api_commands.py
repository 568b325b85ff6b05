"""POST /api/jobs/<id>/cancel, /retry and /rerun."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.problems import problem_of

if TYPE_CHECKING:
    from tests.api import Service


def test_repeated_cancellation_of_a_waiting_job_is_the_same(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    for _ in range(2):
        answer = ana.post(f"/api/jobs/{job_id}/cancel")
        assert answer.status_code == 200
        assert answer.get_json()["status"] == "cancelled"
    body = ana.get(f"/api/jobs/{job_id}").get_json()
    assert (body["status"], body["reason"]) == ("cancelled", "cancelled by its user")


def test_running_job_receives_a_request_to_stop(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id)
    answer = ana.post(f"/api/jobs/{job_id}/cancel")
    assert answer.status_code == 202
    assert answer.get_json()["status"] == "requested"
    assert ana.get(f"/api/jobs/{job_id}").get_json()["label"] == "cancelling"


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_an_ended_job_cannot_be_cancelled(service: Service, status: str) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.end(job_id, status)
    problem_of(ana.post(f"/api/jobs/{job_id}/cancel"), 409)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_ended_job_is_retried_as_one_new_job(service: Service, status: str) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.end(job_id, status)
    first = ana.post(f"/api/jobs/{job_id}/retry")
    again = ana.post(f"/api/jobs/{job_id}/retry")
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.headers["Location"] == again.headers["Location"]
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    new = ana.get(first.headers["Location"]).get_json()
    assert new["parent_id"] == job_id
    assert ana.get(f"/api/jobs/{job_id}").get_json()["successor_id"] == new["job_id"]


def test_unfailed_job_is_not_retried(service: Service) -> None:
    ana = service.caller()
    waiting, done = ana.job(), ana.job()
    service.end(done, "completed")
    for job_id in (waiting, done):
        problem_of(ana.post(f"/api/jobs/{job_id}/retry"), 409)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_rerun_submits_an_ended_job_again(service: Service, status: str) -> None:
    ana = service.caller()
    job_id = ana.job(priority="urgent")
    service.end(job_id, status)
    answer = ana.post(f"/api/jobs/{job_id}/rerun", json={})
    assert answer.status_code == 202, answer.text
    old, new = ana.get(f"/api/jobs/{job_id}").get_json(), ana.get(answer.headers["Location"]).get_json()
    assert (new["parent_id"], new["status"], new["payload"]) == (job_id, "pending", old["payload"])
    assert (new["type"], new["user"], new["priority"]) == (old["type"], ana.user, "urgent")
    assert old["successor_id"] is None
    assert service.queue.offered[-1].job_id == uuid.UUID(new["job_id"])


def test_rerun_takes_an_edited_payload_and_a_key(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.end(job_id, "completed")
    edited = {"greetings": [{"to": 3}], "day": "2030-02-01"}
    sent = [
        ana.post(f"/api/jobs/{job_id}/rerun", json={"payload": edited}, headers={"Idempotency-Key": "again"})
        for _ in range(2)
    ]
    assert len({answer.headers["Location"] for answer in sent}) == 1
    new = ana.get(sent[0].headers["Location"]).get_json()
    assert [greeting["to"] for greeting in new["payload"]["greetings"]] == [3]
    wrong = problem_of(ana.post(f"/api/jobs/{job_id}/rerun", json={"payload": {"greetings": [], "day": 1}}), 400)
    assert {error["field"] for error in wrong["errors"]} == {"payload.day"}


def test_rerun_skips_finished_items_once(service: Service) -> None:
    ana, ben = service.caller(), service.caller()
    job_id = ana.job()
    service.rows("INSERT INTO background_job_items (job_id, key, state) VALUES (%s, '1', 'done')", job_id)
    body = {"skip_finished": True}
    problem_of(ana.post(f"/api/jobs/{job_id}/rerun", json=body), 409)
    service.end(job_id, "completed")
    first, again = (ana.post(f"/api/jobs/{job_id}/rerun", json=body) for _ in range(2))
    assert first.status_code == 202
    assert first.headers["Location"] == again.headers["Location"]
    new = ana.get(first.headers["Location"]).get_json()
    assert new["parent_id"] == job_id
    assert service.rows("SELECT state FROM background_job_items WHERE job_id = %s", new["job_id"]) == [("skipped",)]
    assert problem_of(ana.post(f"/api/jobs/{job_id}/rerun", json=body | {"payload": {}}), 400)
    problem_of(ben.post(f"/api/jobs/{job_id}/rerun", json=body), 404)


def test_rerun_refuses_open_and_foreign_jobs(service: Service) -> None:
    ana, ben = service.caller(), service.caller()
    job_id = ana.job()
    problem_of(ana.post(f"/api/jobs/{job_id}/rerun", json={}), 409)
    service.end(job_id, "completed")
    problem_of(ben.post(f"/api/jobs/{job_id}/rerun", json={}), 404)


def test_job_shows_its_payload_redacted_for_operators(service: Service) -> None:
    ana, operator, admin = service.caller(), service.caller("north", "operator"), service.caller("north", "admin")
    job_id = ana.job()
    service.rows('UPDATE background_jobs SET payload = payload || \'{"api_key": "s3cret"}\' WHERE id = %s', job_id)
    for caller, seen in ((ana, "s3cret"), (admin, "s3cret"), (operator, "•••")):
        assert caller.get(f"/api/jobs/{job_id}").get_json()["payload"]["api_key"] == seen
    assert ana.get("/api/jobs").get_json()["jobs"][0]["payload"] is None
    service.rows(
        "UPDATE background_jobs SET payload = jsonb_build_object('note',"
        " (SELECT string_agg(gen_random_uuid()::text, '') FROM generate_series(1, 1000))) WHERE id = %s",
        job_id,
    )
    assert ana.get(f"/api/jobs/{job_id}").get_json()["payload"] is None
