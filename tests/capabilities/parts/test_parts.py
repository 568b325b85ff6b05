"""A job is split into parts, waits for them in no process, and resumes once, however they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import turno
from tests.attempt_in_process import attempt, claim_in_process, execute_in_process
from tests.capabilities.effects.external_system import KEY, Outside
from tests.misbehaving_handlers import REGISTRY, Faulty
from tests.misdeeds.deed import DEEDS, FaultyPayload
from turno import crash_points
from turno.capabilities.effects import review
from turno.jobs.job import Priority
from turno.store.operator.counts import lanes, queues
from turno.tenancy.identity.session import service_session
from turno.testing.build import FOREVER
from turno.testing.in_process_worker import InProcessWorker

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext, Part

    Split = Callable[..., UUID]

THREE = [{"how": "part", "number": number} for number in (1, 2, 3)]


@pytest.fixture
def split(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Split:
    """Enqueue a job of three parts that returns their results; a part with a number in `fails` fails for good."""

    def enqueue(*fails: int, payloads: list[Any] = THREE, **options: Any) -> UUID:
        def whole(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
            return {"parts": [reply(part) for part in job.fan_out(Faulty, payloads, **options)]}

        def part(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
            if payload.number in fails:
                raise turno.PermanentFailure(f"the {payload.number} is broken")
            for step in job.each(range(payload.number)):
                with step as item:
                    item.ref = "x"
            return {"number": payload.number}

        monkeypatch.setitem(DEEDS, "whole", whole)
        monkeypatch.setitem(DEEDS, "part", part)
        return example.enqueue({"how": "whole"}, handler=Faulty, correlation_id="c-1", priority=Priority.LOW)

    return enqueue


def reply(part: Part) -> list[Any]:
    return [str(part.status), part.result and part.result["number"], part.error]


def drain(example: ExampleInstallation) -> Counter[str]:
    return InProcessWorker(example, REGISTRY).drain()


def parts(example: ExampleInstallation, job_id: UUID) -> list[dict[str, Any]]:
    statement = (
        "SELECT j.*, b.n FROM background_job_parts b JOIN background_jobs j ON j.id = b.part_id"
        " WHERE b.job_id = %s ORDER BY b.n"
    )
    return example.rows(statement, job_id)


def test_job_resumes_with_the_results_of_its_parts(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    waiting = attempt(example, job_id)
    assert (waiting["status"], waiting["reason"], waiting["errors"]) == ("pending", "waits for its parts", 0)
    made = parts(example, job_id)
    assert [part["payload"]["number"] for part in made] == [1, 2, 3]
    assert {(part["user_id"], part["correlation_id"], part["priority"], part["parent_id"]) for part in made} == {
        ("ana", "c-1", 2, job_id)
    }
    assert drain(example) == {"completed": 4}
    job = example.job(job_id)
    assert job["result"] == {"parts": [["completed", number, None] for number in (1, 2, 3)]}
    assert (job["attempt"], example.ticket(job_id)) == (2, None)
    # Of a part its job notifies the user.
    assert [row["job_id"] for row in example.rows("SELECT job_id FROM notifications")] == [job_id]


def test_it_waits_in_no_process_and_for_the_last_one(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    for part in parts(example, job_id):
        assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]
        assert example.ticket(job_id)["state"] == "parts"  # type: ignore[index]
        attempt(example, part["id"])
    assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]
    assert attempt(example, job_id)["status"] == "completed"


def test_two_parts_that_end_at_once_let_it_go_on(example: ExampleInstallation, split: Split) -> None:
    """Neither transaction sees the end in the second; the last commit leaves a mark that is read after both."""
    job_id = split(payloads=THREE[:2])
    attempt(example, job_id)
    with (
        psycopg.connect(example.url, autocommit=True) as first,
        psycopg.connect(example.url, autocommit=True) as second,
    ):
        for session, part in zip((first, second), parts(example, job_id), strict=True):
            session.execute("BEGIN")
            session.execute("DELETE FROM turno.tickets WHERE job_id = %s", (part["id"],))
        first.execute("COMMIT")
        assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]
        second.execute("COMMIT")
    assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]


def test_a_job_that_ran_for_another_reason_waits_again(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    claim = claim_in_process(example, parts(example, job_id)[0]["id"])
    example.rows("UPDATE turno.tickets SET state = 'ready', run_at = clock_timestamp() WHERE job_id = %s", job_id)
    assert attempt(example, job_id)["status"] == "pending"
    execute_in_process(example, claim)
    assert len(parts(example, job_id)) == 3
    drain(example)
    assert example.job(job_id)["status"] == "completed"


def test_parts_ended_before_the_wait_resume_the_job(
    example: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word that they leave is read while their job is still running, and gone when it begins to wait."""
    job_id = split()
    attempt(example, job_id)
    example.rows("UPDATE turno.tickets SET state = 'ready', run_at = clock_timestamp() WHERE job_id = %s", job_id)
    claim = claim_in_process(example, job_id)
    monkeypatch.setattr(crash_points, "reach", lambda step: step == "splitting" and drain(example))
    assert execute_in_process(example, claim)["status"] == "pending"
    drain(example)
    assert example.job(job_id)["status"] == "completed"


def test_the_end_of_a_part_wakes_no_job_in_review(
    example: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = split(1, stop_on_failure=True)
    whole, outside = DEEDS["whole"], Outside(answers=[TimeoutError("no answer")])

    def doubtful(job: JobContext, payload: FaultyPayload) -> Any:
        if job.attempt == 2:
            job.once(KEY, outside.call)
        return whole(job, payload)

    monkeypatch.setitem(DEEDS, "whole", doubtful)
    example.rows("UPDATE background_jobs SET max_attempts = 1")
    attempt(example, job_id)
    first, second, last = parts(example, job_id)
    at_work = [claim_in_process(example, part["id"]) for part in (second, last)]
    attempt(example, first["id"])
    assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]
    assert attempt(example, job_id)["run_at"] == FOREVER
    for claim in at_work:
        execute_in_process(example, claim)
        assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]
    assert example.ticket(job_id)["state"] == "review"  # type: ignore[index]
    example.rows("SELECT job_repair('exec')")
    assert drain(example) == {}
    assert example.rows("SELECT kind FROM notifications WHERE job_id = %s", job_id) == [{"kind": "needs_review"}]
    (waiting,) = example.rows("SELECT tickets FROM turno.ticket_counts WHERE state = 'review'")
    assert waiting == {"tickets": 1}
    assert example.call(review.DECIDE, (job_id, "ana", KEY, "1", "ana"))["verdict"] == "settled"
    assert drain(example) == {"failed": 1}


def test_an_operator_s_priority_does_not_wake_a_waiting_job(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    assert example.rows("SELECT job_reorder(%s, 0::smallint, NULL) AS verdict", job_id) == [{"verdict": "changed"}]
    assert example.ticket(job_id)["state"] == "parts"  # type: ignore[index]


def test_a_job_that_waits_for_its_parts_needs_no_review(example: ExampleInstallation, split: Split) -> None:
    attempt(example, split())
    assert example.rows("SELECT FROM turno.ticket_counts WHERE state = 'review'") == []
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        (queue,) = queues(lanes(operator, None))
    assert (queue.waiting, queue.scheduled, queue.review) == (4, 0, 0)


def test_without_a_payload_there_is_nothing_to_wait_for(example: ExampleInstallation, split: Split) -> None:
    assert attempt(example, split(payloads=[]))["result"] == {"parts": []}


def test_failed_part_is_reported_and_siblings_continue(example: ExampleInstallation, split: Split) -> None:
    job_id = split(2)
    attempt(example, job_id)
    assert drain(example) == {"completed": 3, "failed": 1}
    failed = ["failed", None, "the 2 is broken"]
    assert example.job(job_id)["result"] == {"parts": [["completed", 1, None], failed, ["completed", 3, None]]}


def test_first_failure_cancels_other_parts_on_request(example: ExampleInstallation, split: Split) -> None:
    job_id = split(1, stop_on_failure=True)
    attempt(example, job_id)
    first, _, last = parts(example, job_id)
    at_work = claim_in_process(example, last["id"])
    attempt(example, first["id"])
    assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]
    assert attempt(example, job_id)["status"] == "pending"  # it waits for the running part
    assert [part["status"] for part in parts(example, job_id)] == ["failed", "cancelled", "pending"]
    execute_in_process(example, at_work)
    drain(example)
    job = example.job(job_id)
    assert (job["status"], job["error"]["class"]) == ("failed", "PartsFailed")
    assert job["error"]["message"] == "3 of 3 parts were not completed: the 1 is broken"


def test_failure_resumes_no_parent_without_its_request(example: ExampleInstallation, split: Split) -> None:
    job_id = split(1)
    attempt(example, job_id)
    attempt(example, parts(example, job_id)[0]["id"])
    assert example.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]


def test_cancelled_job_cancels_its_parts(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    claim = claim_in_process(example, parts(example, job_id)[0]["id"])
    assert example.cancel(job_id) == "cancelled"
    assert execute_in_process(example, claim)["status"] == "cancelled"
    assert {part["status"] for part in parts(example, job_id)} == {"cancelled"}
    assert drain(example) == {}


def test_retry_runs_only_unfinished_work(example: ExampleInstallation, split: Split) -> None:
    job_id = split(2)
    attempt(example, job_id)
    drain(example)
    done = [part["id"] for part in parts(example, job_id) if part["status"] == "completed"]
    again = example.retry(job_id)
    assert again["verdict"] == "accepted"
    split()  # now no part is broken
    assert drain(example)["completed"] >= 2
    first, second, third = parts(example, again["job_id"])
    assert [first["id"], third["id"]] == done
    assert (second["status"], second["parent_id"]) == ("completed", parts(example, job_id)[1]["id"])
    assert example.job(again["job_id"])["result"] == {"parts": [["completed", number, None] for number in (1, 2, 3)]}


def test_job_is_retried_for_failed_items_of_its_parts(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    assert example.retry(job_id)["verdict"] == "not_retryable"
    drain(example)
    assert example.retry(job_id)["verdict"] == "not_retryable"
    last = parts(example, job_id)[2]["id"]
    example.rows("UPDATE background_job_items SET state = 'failed', error = '{}' WHERE (job_id, key) = (%s, '0')", last)
    again = example.retry(job_id)
    drain(example)
    assert [part["parent_id"] == last for part in parts(example, again["job_id"])] == [False, False, True]


def test_progress_adds_up(example: ExampleInstallation, split: Split) -> None:
    job_id = split(2, total=6)
    attempt(example, job_id)
    query = "SELECT done, failed, total FROM background_job_progress WHERE job_id = %s"
    assert example.rows(query, job_id) == [{"done": 0, "failed": 0, "total": 6}]
    drain(example)
    assert example.rows(query, job_id) == [{"done": 4, "failed": 0, "total": 6}]


@pytest.mark.timeout(60)
def test_a_part_writes_no_row_of_its_job(example: ExampleInstallation, split: Split) -> None:
    job_id = split(total=6)
    attempt(example, job_id)
    with psycopg.connect(example.url) as other:
        path = f'"{example.one.schema}".background_job_progress_rows'
        other.execute(f"SELECT FROM {path} WHERE job_id = %s FOR UPDATE", (job_id,))
        for part in parts(example, job_id):
            assert attempt(example, part["id"])["status"] == "completed"


def test_progress_of_a_retried_job_ends_complete(example: ExampleInstallation, split: Split) -> None:
    job_id = split(2, 3, total=6)
    attempt(example, job_id)
    drain(example)
    again = example.retry(job_id)["job_id"]
    split(3, total=6)
    drain(example)
    query = "SELECT done, failed, total FROM background_job_progress WHERE job_id = %s"
    assert example.rows(query, again) == [{"done": 3, "failed": 0, "total": 6}]
    last = example.retry(again)["job_id"]
    split(total=6)
    drain(example)
    assert example.rows(query, last) == [{"done": 6, "failed": 0, "total": 6}]


def test_a_part_has_no_parts(example: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = split(payloads=THREE[:1])
    attempt(example, job_id)
    monkeypatch.setitem(DEEDS, "part", DEEDS["whole"])
    drain(example)
    (part,) = parts(example, job_id)
    assert part["status"] == "failed"
    assert "a part of a job has no parts" in part["error"]["message"]


def test_a_job_is_split_once(example: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = split(payloads=[])
    whole = DEEDS["whole"]
    monkeypatch.setitem(DEEDS, "whole", lambda job, payload: [whole(job, payload), whole(job, payload)])
    job = attempt(example, job_id)
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")


def test_a_bad_payload_makes_no_part(example: ExampleInstallation, split: Split) -> None:
    job = attempt(example, split(payloads=[*THREE, {"how": 1}]))
    assert job["error"]["class"] == "InvalidPayload"
    assert parts(example, job["id"]) == []


def test_more_parts_than_a_user_may_have_jobs_are_refused(example: ExampleInstallation, split: Split) -> None:
    job = attempt(example, split(payloads=THREE * 334))
    assert "make fewer parts" in job["error"]["message"]


def test_a_lost_ticket_of_either_is_made_again(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    example.rows("DELETE FROM turno.tickets")
    example.rows("DELETE FROM turno.part_looks")
    example.sweep()
    drain(example)
    assert example.job(job_id)["status"] == "completed"


def test_word_that_was_lost_is_found_by_the_sweep(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    for part in parts(example, job_id):
        attempt(example, part["id"])
    example.rows("DELETE FROM turno.part_looks")
    assert drain(example) == {}
    example.sweep()
    assert drain(example) == {"completed": 1}


def test_a_part_is_kept_as_long_as_its_job(example: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(example, job_id)
    drain(example)
    example.rows(
        "UPDATE background_jobs SET finished_at = finished_at - interval '99 days' WHERE parent_id = %s", job_id
    )
    assert example.rows("SELECT job_purge('1 day', 100) AS n") == [{"n": 0}]
    example.rows("UPDATE background_jobs SET finished_at = finished_at - interval '99 days' WHERE id = %s", job_id)
    assert [example.rows("SELECT job_purge('1 day', 100) AS n") for _ in range(3)] == [[{"n": n}] for n in (1, 3, 0)]


def test_a_request_does_the_parts_itself(example: ExampleInstallation, split: Split) -> None:
    split()
    result = example.run(Faulty, {"how": "whole"})
    assert result == {"parts": [["completed", number, None] for number in (1, 2, 3)]}
