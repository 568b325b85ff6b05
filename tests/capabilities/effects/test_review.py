"""A job that waits for a person to settle its outside effect, and the events that wake it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.attempt_in_process import attempt
from tests.capabilities.effects.external_system import KEY, Scenario
from tests.installation import ExampleInstallation
from turno.capabilities.effects import review
from turno.errors import NeedsReview
from turno.jobs.job_context import Absent, Done, Unknown
from turno.testing.build import FOREVER

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext


def test_third_crash_with_effect_in_doubt_waits_for_person(example: ExampleInstallation, scenario: Scenario) -> None:
    job_id = scenario.enqueue(look=False)
    example.rows("UPDATE background_jobs SET crashes = 2, attempt = 2")
    example.rows("UPDATE turno.tickets SET crashes = 2, attempt = 2")
    scenario.die(job_id, buried=True)
    job = example.job(job_id)
    assert (job["status"], job["run_at"], job["crashes"]) == ("pending", FOREVER, 3)
    assert job["reason"] == f"{KEY} is in doubt: test"
    assert example.rows("SELECT kind FROM notifications") == [{"kind": "needs_review"}]
    assert example.rows("SELECT 1 FROM background_jobs_dead_letter") == []
    assert scenario.decide(job_id, '"granted"') == "settled"
    assert attempt(example, job_id)["result"] == {"answer": "granted"}


def test_job_without_attempts_left_is_parked_in_doubt(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.outside.answers = [TimeoutError("no answer")]
    job = attempt(example, job_id := scenario.enqueue(max_attempts=1))
    assert (job["status"], job["run_at"], job["reason"].split(":")[0]) == ("pending", FOREVER, "no attempts left")
    assert scenario.decide(job_id, '"paid"') == "settled"
    assert attempt(example, job_id)["result"] == {"answer": "paid"}


def test_parked_job_asks_its_user_once_and_resumes(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.die(job_id := scenario.enqueue(), buried=False)
    scenario.outside.findings = [Absent()]
    attempt(example, job_id)
    (reply,) = example.rows("SELECT kind, data, read_at FROM notifications")
    assert (reply["kind"], reply["data"]["key"], reply["read_at"]) == ("needs_review", KEY, None)
    assert scenario.decide(job_id, '{"cae": 9}') == "settled"
    assert scenario.decide(job_id, None) == "ended"
    assert attempt(example, job_id)["result"] == {"answer": {"cae": 9}}
    assert len(scenario.outside.calls) == 1
    (event,) = example.rows("SELECT reason FROM background_job_events WHERE old_status = new_status")
    assert event["reason"] == f"{KEY} was settled as done by ana"
    (reply, ended) = example.rows("SELECT kind, read_at FROM notifications ORDER BY created_at")
    assert (reply["read_at"] is not None, ended["kind"]) == (True, "completed")


def test_effect_settled_as_absent_is_issued_again(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.die(job_id := scenario.enqueue(), buried=False)
    scenario.outside.findings = [Absent()]
    attempt(example, job_id)
    assert scenario.decide(job_id, None) == "settled"
    assert attempt(example, job_id)["result"] == {"answer": {"cae": 2}}


def test_continuation_of_poisoned_job_looks_up_its_effect(example: ExampleInstallation, scenario: Scenario) -> None:
    job_id = scenario.enqueue()
    scenario.outside.findings = [Absent(), Absent()]
    for _ in range(3):
        scenario.die(job_id, buried=True)
    assert (example.job(job_id)["crashes"], example.job(job_id)["run_at"]) == (3, FOREVER)
    assert example.cancel(job_id) == "cancelled"
    first, second = (example.retry(job_id) for _ in range(2))
    assert (first["verdict"], second["verdict"], first["job_id"]) == ("accepted", "replayed", second["job_id"])
    scenario.outside.findings = [Done("the third one")]
    assert attempt(example, first["job_id"])["result"] == {"answer": "the third one"}
    assert (len(scenario.outside.calls), example.retry(first["job_id"])["verdict"]) == (3, "not_retryable")


def test_settling_wakes_every_job_that_waits_for_it(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.die(first := scenario.enqueue(), buried=False)
    second = scenario.enqueue()
    scenario.outside.findings = [Unknown("no"), Unknown("no")]
    assert {attempt(example, first)["run_at"], attempt(example, second)["run_at"]} == {FOREVER}
    assert scenario.decide(second, '"both"') == "settled"
    assert [attempt(example, job_id)["result"] for job_id in (first, second)] == [{"answer": "both"}] * 2


def test_person_cannot_settle_a_running_or_foreign_effect(example: ExampleInstallation, scenario: Scenario) -> None:
    job_id = scenario.enqueue()
    verdicts: list[str] = []

    def meanwhile() -> str:
        verdicts.append(scenario.decide(job_id, None))
        return "mine"

    scenario.outside.answers = [meanwhile]
    attempt(example, job_id)
    assert verdicts == ["busy"]
    stranger = example.call(review.DECIDE, (job_id, "eve", KEY, None, "eve"))
    assert stranger["verdict"] == "unknown"
    assert scenario.decide(scenario.enqueue(), None) == "unknown"


def test_cancelled_parked_job_keeps_its_effect_on_record(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.die(job_id := scenario.enqueue(), buried=False)
    scenario.outside.findings = [Absent()]
    attempt(example, job_id)
    assert example.cancel(job_id) == "cancelled"
    assert scenario.effect()["state"] == "intended"
    assert scenario.decide(job_id, '"paid"') == "settled"
    assert attempt(example, scenario.enqueue())["result"] == {"answer": "paid"}


def test_a_job_is_not_parked_for_a_settled_effect(example: ExampleInstallation, scenario: Scenario) -> None:
    attempt(example, scenario.enqueue())
    assert scenario.effect()["state"] == "done"

    def park_all_the_same(_job: JobContext) -> None:
        raise NeedsReview(KEY, "it may have happened")

    job = attempt(example, job_id := scenario.enqueue(park_all_the_same))
    assert (job["status"], job["in_doubt"], job["error"]) == ("pending", None, None)
    assert job["run_at"] <= datetime.now(UTC)
    assert example.rows("SELECT kind FROM notifications WHERE job_id = %s", job_id) == []


def test_a_job_that_reached_outside_never_expires(example: ExampleInstallation, scenario: Scenario) -> None:
    job_id = scenario.enqueue(expires_at=datetime.now(UTC) + timedelta(hours=1))
    scenario.die(job_id, buried=False)
    scenario.outside.findings = [Absent()]
    attempt(example, job_id)
    assert example.job(job_id)["expires_at"] is None
    assert example.sweep()["expired"] == 0


def test_cron_keeps_parked_jobs_and_effects(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.die(job_id := scenario.enqueue(), buried=False)
    scenario.outside.findings = [Absent()]
    attempt(example, job_id)
    before = example.job(job_id)
    assert {name for name, rows in example.sweep().items() if rows} <= {"counted", "deliveries"}
    assert example.job(job_id) == before
    example.cancel(job_id)
    example.rows("UPDATE background_jobs SET finished_at = finished_at - interval '1 year'")
    assert example.sweep()["purged"] == 1
    assert scenario.effect()["state"] == "intended"
