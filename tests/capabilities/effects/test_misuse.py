"""The refusals of `job.once`: keys, answers and moments without permission to call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.attempt_here import attempt
from tests.capabilities.effects.other_side import KEY, Place
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import FaultyHurried
from turno.jobs.job_context import Effect

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext


@pytest.mark.parametrize(
    "answer", [{"a": float("nan")}, {1, 2}, "x" * 70_000, "a\0b"], ids=["nan", "set", "large", "nul"]
)
def test_unstorable_answer_fails_job_and_stays_in_doubt(
    example: ExampleInstallation, place: Place, answer: Any
) -> None:
    place.outside.answers = [lambda: answer]
    job = attempt(example, place.enqueue())
    assert (job["status"], job["error"]["class"]) == ("failed", "InvalidResult")
    assert (place.effect()["state"], place.effect()["caller_gone"]) == ("intended", True)


def test_a_key_of_another_type_is_a_mistake(example: ExampleInstallation, place: Place) -> None:
    attempt(example, place.enqueue())
    job = attempt(example, place.enqueue(handler=FaultyHurried))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "another job type" in job["error"]["message"]


def test_two_tenants_with_one_key_are_two_effects(example: ExampleInstallation, place: Place) -> None:
    attempt(example, place.enqueue())
    attempt(example, place.enqueue(tenant=example.other))
    call, other = place.outside.calls
    assert call.outside_key != other.outside_key


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b"], ids=["empty", "long", "nul"])
def test_a_key_that_cannot_be_kept_is_refused(example: ExampleInstallation, place: Place, key: str) -> None:
    job = attempt(example, place.enqueue(lambda job: job.once(key, place.outside.call)))
    assert (job["status"], job["error"]["class"], place.outside.calls) == ("failed", "HandlerMisuse", [])


def test_the_call_cannot_use_the_job_s_session(example: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> Any:
        cursor = job.connection.cursor()

        def call(_effect: Effect) -> None:
            cursor.execute("DELETE FROM customers")

        job.once(KEY, call)

    job = attempt(example, place.enqueue(deed))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "must not use the database" in job["error"]["message"]


def test_within_a_savepoint_of_the_handler_s_it_is_refused(example: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> Any:
        with job.connection.transaction():
            return place.plain(job)

    job = attempt(example, place.enqueue(deed))
    assert (job["status"], job["error"]["class"], place.outside.calls) == ("failed", "HandlerMisuse", [])


def test_after_a_commit_behind_our_back_it_is_refused(example: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> Any:
        job.connection.execute("COMMIT; BEGIN")
        return place.plain(job)

    job = attempt(example, place.enqueue(deed))
    assert (job["status"], job["error"]["class"], place.outside.calls) == ("failed", "HandlerMisuse", [])


def test_a_cancelled_job_issues_nothing_more(example: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> dict[str, Any]:
        example.cancel(job.job_id)
        return place.plain(job)

    assert attempt(example, place.enqueue(deed))["status"] == "cancelled"
    assert (place.outside.calls, example.rows("SELECT 1 FROM external_effects")) == ([], [])


def test_the_tables_refuse_a_settlement_without_its_result(example: ExampleInstallation, place: Place) -> None:
    attempt(example, place.enqueue())
    with pytest.raises(psycopg.errors.CheckViolation):
        example.rows("UPDATE external_effects SET result = NULL")
