"""A person's settlement of an outside effect in doubt, over HTTP: permission, consequences, and record."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.problems import problem_of

if TYPE_CHECKING:
    from tests.api import Caller, Service


@pytest.fixture
def ana(service: Service) -> Caller:
    return service.caller()


@pytest.fixture
def parked(service: Service, ana: Caller) -> str:
    """A job that waits until a person settles an effect; its key is the job's id, so that each test has its own."""
    job = ana.job()
    service.doubt(job, job)
    return job


def settle(caller: Caller, job: str, **body: Any) -> Any:
    data = json.dumps({"key": job} | body, ensure_ascii=False).encode()
    return caller.post(f"/api/jobs/{job}/effects/settle", data=data, content_type="application/json")


def the_effect(caller: Caller, job: str) -> dict[str, Any]:
    (effect,) = caller.get(f"/api/jobs/{job}/effects").get_json()["effects"]
    return dict(effect)


def test_parked_job_is_found_and_shows_its_effect(ana: Caller, parked: str) -> None:
    ana.job()
    (job,) = ana.get("/api/jobs?needs_review=true").get_json()["jobs"]
    assert (job["job_id"], job["status"], job["label"], job["run_at"]) == (parked, "pending", "needs review", None)
    effect = the_effect(ana, parked)
    assert (effect["key"], effect["state"], effect["needs_review"]) == (parked, "intended", True)
    assert ana.get(job["links"]["effects"]).status_code == 200


@pytest.mark.parametrize("result", [{"cae": "7"}, None, [], "paid"])
def test_effect_settled_as_done_is_kept_and_job_resumes(
    service: Service, ana: Caller, parked: str, result: Any
) -> None:
    offered = len(service.queue.offered)
    answer = settle(ana, parked, verdict="done", result=result)
    assert (answer.status_code, answer.get_json()["status"]) == (200, "settled")
    effect = the_effect(ana, parked)
    assert (effect["state"], effect["result"], effect["needs_review"]) == ("done", result, False)
    assert effect["settled_by"] == ana.user
    job = ana.get(f"/api/jobs/{parked}").get_json()
    assert (job["label"], job["error"]) == ("waiting", None)
    assert str(service.queue.offered[offered].job_id) == parked
    event = ana.get(f"/api/jobs/{parked}/events").get_json()["events"][-1]
    assert (event["old_status"], event["new_status"]) == ("pending", "pending")
    assert event["reason"] == f"{parked} was settled as done by {ana.user}"


def test_effect_settled_as_absent_may_be_issued_again(ana: Caller, parked: str) -> None:
    assert settle(ana, parked, verdict="absent").status_code == 200
    assert the_effect(ana, parked)["state"] == "absent"
    assert ana.get(f"/api/jobs/{parked}").get_json()["label"] == "waiting"


def test_the_first_word_stays(ana: Caller, parked: str) -> None:
    settle(ana, parked, verdict="done", result=1)
    assert problem_of(settle(ana, parked, verdict="absent"), 409)["type"].endswith("job-state")
    assert the_effect(ana, parked)["result"] == 1


def test_an_operator_may_say_it_and_a_stranger_may_not(service: Service, ana: Caller, parked: str) -> None:
    problem_of(settle(service.caller(), parked, verdict="absent"), 404)
    problem_of(settle(service.caller("south"), parked, verdict="absent"), 404)
    boss = service.caller("north", "operator")
    assert settle(boss, parked, verdict="absent").status_code == 200
    assert the_effect(ana, parked)["settled_by"] == boss.user
    on_record = "SELECT actor, jobs, detail FROM turno.operator_audit WHERE action = 'settle' AND detail ->> 'job' = %s"
    assert service.rows(on_record, parked) == [(boss.user, 1, {"job": parked, "effect": parked, "as": "absent"})]
    own = ana.job()
    service.doubt(own, own)
    assert settle(ana, own, verdict="absent").status_code == 200
    assert service.rows(on_record, own) == [], "a user's settlement of their own job is in the job's history"


def test_effect_possibly_under_way_is_left_alone(service: Service, ana: Caller, parked: str) -> None:
    service.rows(
        "UPDATE turno.tickets t SET state = 'running', token = e.token, worker_id = gen_random_uuid()"
        " FROM external_effects e WHERE e.job_id = t.job_id AND t.job_id = %s",
        parked,
    )
    assert "may be issuing" in problem_of(settle(ana, parked, verdict="absent"), 409)["detail"]
    assert the_effect(ana, parked)["state"] == "intended"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"verdict": "maybe"},
        {"verdict": "done"},
        {"verdict": "absent", "result": 1},
        {"verdict": "absent", "key": ""},
        {"verdict": "absent", "key": "x" * 256},
        {"verdict": "absent", "key": 1},
        {"verdict": "absent", "by": "somebody else"},
        {"verdict": "done", "result": "x" * 64_500 + "ñ" * 200},
    ],
)
def test_a_word_that_is_not_clear_changes_nothing(ana: Caller, parked: str, body: dict[str, Any]) -> None:
    problem_of(settle(ana, parked, **body), 400)
    assert the_effect(ana, parked)["state"] == "intended"


def test_an_unknown_effect_is_not_found(ana: Caller, parked: str) -> None:
    problem_of(settle(ana, parked, key="another", verdict="absent"), 404)
    problem_of(settle(ana, ana.job(), key=parked, verdict="absent"), 404)
    problem_of(settle(ana, str(uuid.uuid4()), verdict="absent"), 404)


def test_a_parked_job_can_be_cancelled(ana: Caller, parked: str) -> None:
    assert ana.post(f"/api/jobs/{parked}/cancel").status_code == 200
    assert ana.get(f"/api/jobs/{parked}").get_json()["label"] == "cancelled"
    effect = the_effect(ana, parked)
    assert effect["state"] == "intended"
    assert settle(ana, parked, verdict="done", result="paid").status_code == 200


def test_effects_come_in_pages(service: Service, ana: Caller) -> None:
    job = ana.job()
    keys = [f"{job}-{number}" for number in range(3)]
    for key in keys:
        service.doubt(job, key)
    first = ana.get(f"/api/jobs/{job}/effects?limit=2").get_json()
    second = ana.get(f"/api/jobs/{job}/effects?limit=2&cursor={first['next_cursor']}").get_json()
    assert [effect["key"] for effect in first["effects"] + second["effects"]] == keys
    assert second["next_cursor"] is None
