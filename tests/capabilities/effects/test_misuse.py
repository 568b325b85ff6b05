"""The refusals of `job.once`: keys, answers and moments without permission to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.attempt_in_process import attempt
from tests.capabilities.effects.external_system import KEY, Scenario
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import FaultyHurried
from turno.jobs.job_context import Effect

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext


@pytest.mark.parametrize(
    "answer", [{"a": float("nan")}, {1, 2}, "x" * 70_000, "a\0b"], ids=["nan", "set", "large", "nul"]
)
def test_unstorable_answer_fails_job_and_stays_in_doubt(
    example: ExampleInstallation, scenario: Scenario, answer: Any
) -> None:
    scenario.outside.answers = [lambda: answer]
    job = attempt(example, scenario.enqueue())
    assert (job["status"], job["error"]["class"]) == ("failed", "InvalidResult")
    assert (scenario.effect()["state"], scenario.effect()["caller_gone"]) == ("intended", True)


def test_a_key_of_another_type_is_a_mistake(example: ExampleInstallation, scenario: Scenario) -> None:
    attempt(example, scenario.enqueue())
    job = attempt(example, scenario.enqueue(handler=FaultyHurried))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "another job type" in job["error"]["message"]


def test_two_tenants_with_one_key_are_two_effects(example: ExampleInstallation, scenario: Scenario) -> None:
    attempt(example, scenario.enqueue())
    attempt(example, scenario.enqueue(tenant=example.other))
    call, other = scenario.outside.calls
    assert call.outside_key != other.outside_key


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b"], ids=["empty", "long", "nul"])
def test_a_key_that_cannot_be_kept_is_refused(example: ExampleInstallation, scenario: Scenario, key: str) -> None:
    job = attempt(example, scenario.enqueue(lambda job: job.once(key, scenario.outside.call)))
    assert (job["status"], job["error"]["class"], scenario.outside.calls) == ("failed", "HandlerMisuse", [])


def test_the_call_cannot_use_the_job_s_session(example: ExampleInstallation, scenario: Scenario) -> None:
    def deed(job: JobContext) -> Any:
        cursor = job.connection.cursor()

        def call(_effect: Effect) -> None:
            cursor.execute("DELETE FROM customers")

        job.once(KEY, call)

    job = attempt(example, scenario.enqueue(deed))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "must not use the database" in job["error"]["message"]


def test_within_a_savepoint_of_the_handler_s_it_is_refused(example: ExampleInstallation, scenario: Scenario) -> None:
    def deed(job: JobContext) -> Any:
        with job.connection.transaction():
            return scenario.plain(job)

    job = attempt(example, scenario.enqueue(deed))
    assert (job["status"], job["error"]["class"], scenario.outside.calls) == ("failed", "HandlerMisuse", [])


def test_after_a_commit_behind_our_back_it_is_refused(example: ExampleInstallation, scenario: Scenario) -> None:
    def deed(job: JobContext) -> Any:
        job.connection.execute("COMMIT; BEGIN")
        return scenario.plain(job)

    job = attempt(example, scenario.enqueue(deed))
    assert (job["status"], job["error"]["class"], scenario.outside.calls) == ("failed", "HandlerMisuse", [])


def test_a_cancelled_job_issues_nothing_more(example: ExampleInstallation, scenario: Scenario) -> None:
    def deed(job: JobContext) -> dict[str, Any]:
        example.cancel(job.job_id)
        return scenario.plain(job)

    assert attempt(example, scenario.enqueue(deed))["status"] == "cancelled"
    assert (scenario.outside.calls, example.rows("SELECT 1 FROM external_effects")) == ([], [])


def test_the_tables_refuse_a_settlement_without_its_result(example: ExampleInstallation, scenario: Scenario) -> None:
    attempt(example, scenario.enqueue())
    with pytest.raises(psycopg.errors.CheckViolation):
        example.rows("UPDATE external_effects SET result = NULL")
