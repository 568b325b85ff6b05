"""An outside effect happens once: a known effect is not repeated, and an effect in doubt never by a guess."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.attempt_in_process import attempt, claim_in_process, execute_in_process
from tests.capabilities.effects.external_system import KEY, Scenario
from tests.installation import ExampleInstallation
from turno.capabilities.effects import once as intents
from turno.capabilities.effects.once import EffectInDoubt
from turno.errors import NotIssued
from turno.jobs.job_context import Absent, Done, Finding, Unknown
from turno.testing.build import FOREVER

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext


def test_a_second_job_gets_the_stored_result_without_a_call(example: ExampleInstallation, scenario: Scenario) -> None:
    assert attempt(example, scenario.enqueue())["result"] == {"answer": {"cae": 1}}
    assert attempt(example, scenario.enqueue())["result"] == {"answer": {"cae": 1}}
    (call,) = scenario.outside.calls
    row = scenario.effect()
    assert (row["state"], row["result"], row["calls"], row["settled_by"]) == ("done", {"cae": 1}, 1, "its call")
    assert (call.key, call.outside_key, call.calls) == (KEY, row["outside_key"], 1)
    assert scenario.written() == ["after", "after", "before", "before"]


@pytest.mark.parametrize("answer", [None, [], "text", 0, {"a": [1, None]}])
def test_any_json_is_a_result(example: ExampleInstallation, scenario: Scenario, answer: Any) -> None:
    scenario.outside.answers = [lambda: answer]
    assert attempt(example, scenario.enqueue())["result"] == {"answer": answer}
    assert attempt(example, scenario.enqueue())["result"] == {"answer": answer}
    assert len(scenario.outside.calls) == 1


def test_call_has_no_open_transaction_and_commits_before(example: ExampleInstallation, scenario: Scenario) -> None:
    def look_around() -> dict[str, Any]:
        assert scenario.written() == ["before"]
        assert scenario.effect()["state"] == "intended"
        sessions = example.rows(
            "SELECT state, backend_xid, backend_xmin FROM pg_stat_activity WHERE application_name = 'test'"
        )
        assert {(row["state"], row["backend_xid"], row["backend_xmin"]) for row in sessions} == {("idle", None, None)}
        return {"seen": True}

    scenario.outside.answers = [look_around]
    assert attempt(example, scenario.enqueue())["result"] == {"answer": {"seen": True}}


def test_failure_after_call_undoes_neither_effect_nor_work(example: ExampleInstallation, scenario: Scenario) -> None:
    def deed(job: JobContext) -> dict[str, Any]:
        scenario.plain(job)
        raise ValueError(job.attempt)

    job_id = scenario.enqueue(deed)
    assert attempt(example, job_id)["errors"] == 1
    assert (scenario.effect()["state"], scenario.written()) == ("done", ["before"])
    attempt(example, job_id)
    assert len(scenario.outside.calls) == 1


@dataclass(frozen=True)
class Doubt:
    """An intent without a settlement, and its required consequences."""

    finding: Finding | None  # None: the handler has no look-up
    ends: str
    buried: bool = True  # the dead attempt's parent saw it die
    idempotent: bool = False


CANNOT_TELL = Unknown("the authority cannot tell")


@pytest.mark.parametrize(
    "doubt",
    [
        Doubt(Done({"cae": 7}), "found"),
        Doubt(Done({"cae": 7}), "found", buried=False),
        Doubt(Absent(), "issued"),
        Doubt(Absent(), "issued", buried=False, idempotent=True),
        Doubt(Absent(), "parked", buried=False),
        Doubt(CANNOT_TELL, "parked"),
        Doubt(CANNOT_TELL, "parked", idempotent=True),
        Doubt(None, "parked"),
        Doubt(None, "issued", buried=False, idempotent=True),
    ],
    ids=lambda doubt: f"{type(doubt.finding).__name__}-{doubt.buried}-{doubt.idempotent}",
)
def test_doubt_has_its_consequence(example: ExampleInstallation, scenario: Scenario, doubt: Doubt) -> None:
    job_id = scenario.enqueue(idempotent=doubt.idempotent, look=doubt.finding is not None)
    scenario.die(job_id, buried=doubt.buried)
    scenario.outside.findings = [doubt.finding]
    job = attempt(example, job_id)
    calls = [call.outside_key for call in scenario.outside.calls]
    assert len(scenario.outside.looked) == (doubt.finding is not None)
    assert len(set(calls)) == 1
    match doubt.ends:
        case "found":
            assert (job["result"], len(calls)) == ({"answer": {"cae": 7}}, 1)
            assert scenario.effect()["settled_by"] == "a look-up"
        case "issued":
            assert (job["result"], len(calls)) == ({"answer": {"cae": 2}}, 2)
            assert scenario.effect()["calls"] == 2
        case "parked":
            assert (job["status"], job["run_at"], job["errors"], len(calls)) == ("pending", FOREVER, 0, 1)
            assert KEY in job["reason"]
            assert job["in_doubt"] == KEY


def test_failed_call_is_looked_up_and_closed_by_its_process(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.outside.answers = [TimeoutError("no answer")]
    scenario.outside.findings = [Absent()]
    assert attempt(example, job_id := scenario.enqueue())["error"]["class"] == "EffectInDoubt"
    assert scenario.effect()["caller_gone"]
    assert attempt(example, job_id)["result"] == {"answer": {"cae": 2}}


def test_a_call_that_did_nothing_is_made_again_without_a_look_up(
    example: ExampleInstallation, scenario: Scenario
) -> None:
    scenario.outside.answers = [NotIssued("connection refused")]
    job = attempt(example, job_id := scenario.enqueue())
    assert (job["errors"], scenario.effect()["state"]) == (1, "absent")
    assert attempt(example, job_id)["result"] == {"answer": {"cae": 2}}
    assert scenario.outside.looked == []


def test_a_look_up_that_fails_is_an_error_and_made_again(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.die(job_id := scenario.enqueue(), buried=True)
    scenario.outside.findings = [ConnectionError("try later"), Done("late")]
    assert attempt(example, job_id)["error"]["class"] == "EffectInDoubt"
    assert attempt(example, job_id)["result"] == {"answer": "late"}


def test_swallowed_error_and_second_call_are_in_doubt(example: ExampleInstallation, scenario: Scenario) -> None:
    def deed(job: JobContext) -> dict[str, Any]:
        with pytest.raises(EffectInDoubt):
            scenario.plain(job)
        return scenario.plain(job)

    scenario.outside.answers = [TimeoutError()]
    scenario.outside.findings = [Done("found")]
    assert attempt(example, scenario.enqueue(deed))["result"] == {"answer": "found"}
    assert len(scenario.outside.calls) == 1


def test_second_job_does_not_call_during_a_call(example: ExampleInstallation, scenario: Scenario) -> None:
    first, second = scenario.enqueue(), scenario.enqueue()
    seen: list[dict[str, Any]] = []

    def meanwhile() -> str:
        seen.append(attempt(example, second))
        return "mine"

    scenario.outside.answers = [meanwhile]
    assert attempt(example, first)["result"] == {"answer": "mine"}
    (waits,) = seen
    assert (waits["status"], waits["errors"], waits["run_at"] > datetime.now(UTC)) == ("pending", 0, True)
    example.time_passes()
    assert attempt(example, second)["result"] == {"answer": "mine"}
    assert len(scenario.outside.calls) == 1


def test_an_intent_that_comes_just_too_late_gets_the_result(example: ExampleInstallation, scenario: Scenario) -> None:
    attempt(example, scenario.enqueue())

    def intend_all_the_same(job: Any) -> dict[str, Any]:
        known = intents.intend(job.connection, job.transaction.claim, KEY, scenario.effect()["outside_key"])
        return {"verdict": known.verdict, "result": known.result}

    assert attempt(example, scenario.enqueue(intend_all_the_same))["result"] == {
        "verdict": "done",
        "result": {"cae": 1},
    }


def test_two_jobs_in_doubt_issue_it_again_once(example: ExampleInstallation, scenario: Scenario) -> None:
    first, second = scenario.enqueue(), scenario.enqueue()
    scenario.die(first, buried=True)

    def the_other_is_faster() -> Finding:
        assert attempt(example, second)["result"] == {"answer": {"cae": 2}}
        return Absent()

    scenario.outside.findings = [the_other_is_faster, Absent()]
    assert attempt(example, first)["status"] == "pending"
    assert len(scenario.outside.calls) == 2
    example.time_passes()
    assert attempt(example, first)["result"] == {"answer": {"cae": 2}}


def test_a_zombie_s_answer_is_refused_and_looked_up(example: ExampleInstallation, scenario: Scenario) -> None:
    job_id = scenario.enqueue()
    claim = claim_in_process(example, job_id)

    def lose_the_claim() -> str:
        example.rows("UPDATE background_job_attempt_rows SET backend_start = 'epoch'")
        example.engine.rescue(example.one.schema, job_id, claim.token, cause="test", retry_in=timedelta(0))
        return "too late"

    scenario.outside.answers = [lose_the_claim]
    assert execute_in_process(example, claim)["status"] == "pending"
    assert (scenario.effect()["state"], scenario.effect()["caller_gone"]) == ("intended", False)
    scenario.outside.findings = [Absent()]
    assert attempt(example, job_id)["run_at"] == FOREVER


def test_a_session_that_breaks_during_the_call_loses_no_answer(
    example: ExampleInstallation, scenario: Scenario
) -> None:
    def cut() -> str:
        example.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test'")
        return "granted"

    scenario.outside.answers = [cut]
    job = attempt(example, scenario.enqueue())
    assert (scenario.effect()["state"], scenario.effect()["result"]) == ("done", "granted")
    assert job["result"] == {"answer": "granted"}


def test_after_a_restore_even_the_first_call_waits_for_a_look_up(
    example: ExampleInstallation, scenario: Scenario
) -> None:
    example.rows("INSERT INTO external_doubt DEFAULT VALUES")
    scenario.outside.findings = [Absent(), Done("the old one")]
    assert attempt(example, scenario.enqueue())["result"] == {"answer": {"cae": 1}}
    example.rows("TRUNCATE external_effects")
    assert attempt(example, scenario.enqueue())["result"] == {"answer": "the old one"}
    example.rows("TRUNCATE external_effects")
    assert attempt(example, scenario.enqueue(look=False))["run_at"] == FOREVER
    assert len(scenario.outside.calls) == 1
