"""Jobs over HTTP, from the POST to the answer of each route."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.api import World


def test_a_job_is_committed_offered_and_told_where_it_is(world: World) -> None:
    ana = world.caller()
    answer = ana.submit()
    body = answer.get_json()
    assert answer.status_code == 202
    assert body["status"] == "accepted"
    assert answer.headers["Location"] == body["links"]["self"] == f"/api/jobs/{body['job_id']}"
    assert "Idempotency-Replayed" not in answer.headers
    assert world.rows("SELECT user_id, status FROM background_jobs WHERE id = %s", body["job_id"]) == [
        (ana.user, "pending")
    ]
    assert str(world.queue.offered[-1].job_id) == body["job_id"]


def test_a_new_job_can_be_looked_at(world: World) -> None:
    ana = world.caller()
    job_id = ana.job(priority="urgent")
    answer = ana.get(f"/api/jobs/{job_id}", headers={"X-Correlation-Id": "look-1"})
    body = answer.get_json()
    assert answer.status_code == 200
    assert (body["status"], body["label"], body["priority"]) == ("pending", "waiting", "urgent")
    assert body["progress"] == {"done": 0, "failed": 0, "total": 0, "percent": 0, "message": None}
    assert (body["result"], body["error"], body["attempts"], body["execution_time_seconds"]) == (None, None, 0, None)
    assert answer.headers["Retry-After"] == "2"
    assert answer.headers["X-Correlation-Id"] == "look-1"
