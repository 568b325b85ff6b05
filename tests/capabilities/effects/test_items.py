"""Outside effects of the items of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.attempt_in_process import attempt
from tests.capabilities.effects.external_system import Scenario, write
from tests.installation import ExampleInstallation
from turno.errors import NotIssued
from turno.jobs.job_context import Done, Unknown
from turno.testing.build import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from turno.jobs.job_context import JobContext


def batch(scenario: Scenario, *, write_first: bool = False) -> Callable[[JobContext], dict[str, Any]]:
    """Five items of a batch, each with a separate outside effect."""

    def deed(job: JobContext) -> dict[str, Any]:
        items = job.each(range(5), chunk=2)
        for step in items:
            with step as item:
                job.connection.execute("SELECT count(*) FROM customers")
                if write_first:
                    write(job, "early")
                answer = job.once(f"cae:{item.value}", scenario.outside.call, scenario.outside.reconcile)
                write(job, f"item {item.value}")
                item.ref = str(answer["cae"])
        return {"done": items.counts.done, "failed": items.counts.failed}

    return deed


def test_each_item_of_a_batch_may_have_its_effect(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.outside.answers = [{"cae": "a"}, NotIssued("refused"), {"cae": "c"}]
    job = attempt(example, scenario.enqueue(batch(scenario)))
    assert job["result"] == {"done": 4, "failed": 1}
    ledger = example.rows("SELECT key, state, ref FROM background_job_items ORDER BY key")
    assert [(row["key"], row["state"]) for row in ledger] == [
        ("0", "done"), ("1", "failed"), ("2", "done"), ("3", "done"), ("4", "done"),
    ]  # fmt: skip
    assert scenario.written() == ["item 0", "item 2", "item 3", "item 4"]


def test_an_item_is_not_blamed_for_a_call_without_an_answer(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.outside.answers = [{"cae": "a"}, TimeoutError("no answer")]
    scenario.outside.findings = [Done({"cae": "b"})]
    job = attempt(example, job_id := scenario.enqueue(batch(scenario)))
    assert (job["errors"], job["error"]["class"]) == (1, "EffectInDoubt")
    assert attempt(example, job_id)["result"] == {"done": 5, "failed": 0}
    assert scenario.written() == [f"item {number}" for number in range(5)]


def test_item_resumes_after_a_death_in_its_call(example: ExampleInstallation, scenario: Scenario) -> None:
    scenario.outside.answers = [{"cae": "a"}, {"cae": "b"}, {"cae": "c"}]
    job_id = scenario.enqueue(batch(scenario))
    scenario.die(job_id, buried=True)
    scenario.outside.findings = [Done({"cae": "d"})]
    assert attempt(example, job_id)["result"] == {"done": 5, "failed": 0}
    assert [call.key for call in scenario.outside.calls] == [f"cae:{number}" for number in range(5)]
    assert scenario.written() == [f"item {number}" for number in range(5)]


def test_doubt_about_one_item_parks_the_job_and_blames_no_item(
    example: ExampleInstallation, scenario: Scenario
) -> None:
    job_id = scenario.enqueue(batch(scenario))
    scenario.die(job_id, buried=True)
    scenario.outside.findings = [Unknown("who knows")]
    assert attempt(example, job_id)["run_at"] == FOREVER
    assert example.rows("SELECT 1 FROM background_job_items") == []


def test_an_item_that_has_written_cannot_commit_the_half_of_it(
    example: ExampleInstallation, scenario: Scenario
) -> None:
    job = attempt(example, scenario.enqueue(batch(scenario, write_first=True)))
    assert (job["status"], job["error"]["class"], scenario.outside.calls) == ("failed", "HandlerMisuse", [])
    assert scenario.written() == []
