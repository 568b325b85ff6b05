"""POST /api/jobs/<id>/cancel and /retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.problems import problem_of

if TYPE_CHECKING:
    from tests.api import Service


def test_a_waiting_job_is_cancelled_however_often_it_is_asked(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    for _ in range(2):
        answer = ana.post(f"/api/jobs/{job_id}/cancel")
        assert answer.status_code == 200
        assert answer.get_json()["status"] == "cancelled"
    body = ana.get(f"/api/jobs/{job_id}").get_json()
    assert (body["status"], body["reason"]) == ("cancelled", "cancelled by its user")


def test_a_running_job_is_asked_to_stop(service: Service) -> None:
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


def test_what_did_not_fail_is_not_retried(service: Service) -> None:
    ana = service.caller()
    waiting, done = ana.job(), ana.job()
    service.end(done, "completed")
    for job_id in (waiting, done):
        problem_of(ana.post(f"/api/jobs/{job_id}/retry"), 409)
