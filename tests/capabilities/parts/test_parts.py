"""A job is split into parts, waits for them in no process, and resumes once, however they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import turno
from tests.attempt_here import attempt, claim_here, execute_here
from tests.capabilities.effects.other_side import KEY, Outside
from tests.misbehaving_handlers import REGISTRY, Odd
from tests.misdeeds.deed import DEEDS, OddPayload
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
def split(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Split:
    """Enqueue a job of three parts that returns their results; a part with a number in `fails` fails for good."""

    def enqueue(*fails: int, payloads: list[Any] = THREE, **options: Any) -> UUID:
        def whole(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
            return {"parts": [told(part) for part in job.fan_out(Odd, payloads, **options)]}

        def part(job: JobContext, payload: OddPayload) -> dict[str, Any]:
            if payload.number in fails:
                raise turno.PermanentFailure(f"the {payload.number} is broken")
            for step in job.each(range(payload.number)):
                with step as item:
                    item.ref = "x"
            return {"number": payload.number}

        monkeypatch.setitem(DEEDS, "whole", whole)
        monkeypatch.setitem(DEEDS, "part", part)
        return world.enqueue({"how": "whole"}, handler=Odd, correlation_id="c-1", priority=Priority.LOW)

    return enqueue


def told(part: Part) -> list[Any]:
    return [str(part.status), part.result and part.result["number"], part.error]


def drain(world: ExampleInstallation) -> Counter[str]:
    return InProcessWorker(world, REGISTRY).drain()


def parts(world: ExampleInstallation, job_id: UUID) -> list[dict[str, Any]]:
    statement = (
        "SELECT j.*, b.n FROM background_job_parts b JOIN background_jobs j ON j.id = b.part_id"
        " WHERE b.job_id = %s ORDER BY b.n"
    )
    return world.rows(statement, job_id)


def test_job_resumes_with_the_results_of_its_parts(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    waiting = attempt(world, job_id)
    assert (waiting["status"], waiting["reason"], waiting["errors"]) == ("pending", "waits for its parts", 0)
    made = parts(world, job_id)
    assert [part["payload"]["number"] for part in made] == [1, 2, 3]
    assert {(part["user_id"], part["correlation_id"], part["priority"], part["parent_id"]) for part in made} == {
        ("ana", "c-1", 2, job_id)
    }
    assert drain(world) == {"completed": 4}
    job = world.job(job_id)
    assert job["result"] == {"parts": [["completed", number, None] for number in (1, 2, 3)]}
    assert (job["attempt"], world.ticket(job_id)) == (2, None)
    # Of a part its job notifies the user.
    assert [row["job_id"] for row in world.rows("SELECT job_id FROM notifications")] == [job_id]


def test_it_waits_in_no_process_and_for_the_last_one(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    for part in parts(world, job_id):
        assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]
        assert world.ticket(job_id)["state"] == "parts"  # type: ignore[index]
        attempt(world, part["id"])
    assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]
    assert attempt(world, job_id)["status"] == "completed"


def test_two_parts_that_end_at_once_let_it_go_on(world: ExampleInstallation, split: Split) -> None:
    """Neither transaction sees the end in the second; the last commit leaves a mark that is read after both."""
    job_id = split(payloads=THREE[:2])
    attempt(world, job_id)
    with psycopg.connect(world.url, autocommit=True) as one, psycopg.connect(world.url, autocommit=True) as two:
        for session, part in zip((one, two), parts(world, job_id), strict=True):
            session.execute("BEGIN")
            session.execute("DELETE FROM turno.tickets WHERE job_id = %s", (part["id"],))
        one.execute("COMMIT")
        assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]
        two.execute("COMMIT")
    assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]


def test_a_job_that_ran_for_another_reason_waits_again(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    claim = claim_here(world, parts(world, job_id)[0]["id"])
    world.rows("UPDATE turno.tickets SET state = 'ready', run_at = clock_timestamp() WHERE job_id = %s", job_id)
    assert attempt(world, job_id)["status"] == "pending"
    execute_here(world, claim)
    assert len(parts(world, job_id)) == 3
    drain(world)
    assert world.job(job_id)["status"] == "completed"


def test_parts_ended_before_the_wait_resume_the_job(
    world: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word that they leave is read while their job is still running, and gone when it begins to wait."""
    job_id = split()
    attempt(world, job_id)
    world.rows("UPDATE turno.tickets SET state = 'ready', run_at = clock_timestamp() WHERE job_id = %s", job_id)
    claim = claim_here(world, job_id)
    monkeypatch.setattr(crash_points, "reach", lambda step: step == "splitting" and drain(world))
    assert execute_here(world, claim)["status"] == "pending"
    drain(world)
    assert world.job(job_id)["status"] == "completed"


def test_the_end_of_a_part_wakes_no_job_in_review(
    world: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = split(1, stop_on_failure=True)
    whole, outside = DEEDS["whole"], Outside(answers=[TimeoutError("no answer")])

    def doubtful(job: JobContext, payload: OddPayload) -> Any:
        if job.attempt == 2:
            job.once(KEY, outside.call)
        return whole(job, payload)

    monkeypatch.setitem(DEEDS, "whole", doubtful)
    world.rows("UPDATE background_jobs SET max_attempts = 1")
    attempt(world, job_id)
    first, second, last = parts(world, job_id)
    at_work = [claim_here(world, part["id"]) for part in (second, last)]
    attempt(world, first["id"])
    assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]
    assert attempt(world, job_id)["run_at"] == FOREVER
    for claim in at_work:
        execute_here(world, claim)
        assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]
    assert world.ticket(job_id)["state"] == "review"  # type: ignore[index]
    world.rows("SELECT job_repair('exec')")
    assert drain(world) == {}
    assert world.rows("SELECT kind FROM notifications WHERE job_id = %s", job_id) == [{"kind": "needs_review"}]
    (waiting,) = world.rows("SELECT slug, jobs FROM turno.jobs_in_review")
    assert waiting == {"slug": "suc0001", "jobs": 1}
    assert world.call(review.DECIDE, (job_id, "ana", KEY, "1", "ana"))["verdict"] == "settled"
    assert drain(world) == {"failed": 1}


def test_an_operator_s_priority_does_not_wake_a_waiting_job(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    assert world.rows("SELECT job_reorder(%s, 0::smallint, NULL) AS verdict", job_id) == [{"verdict": "changed"}]
    assert world.ticket(job_id)["state"] == "parts"  # type: ignore[index]


def test_a_job_that_waits_for_its_parts_needs_no_review(world: ExampleInstallation, split: Split) -> None:
    attempt(world, split())
    assert world.rows("SELECT FROM turno.jobs_in_review") == []
    with service_session(world.logins, world.logins.operator, application="test") as operator:
        (queue,) = queues(lanes(operator, None))
    assert (queue.waiting, queue.scheduled, queue.review) == (4, 0, 0)


def test_without_a_payload_there_is_nothing_to_wait_for(world: ExampleInstallation, split: Split) -> None:
    assert attempt(world, split(payloads=[]))["result"] == {"parts": []}


def test_failed_part_is_reported_and_siblings_continue(world: ExampleInstallation, split: Split) -> None:
    job_id = split(2)
    attempt(world, job_id)
    assert drain(world) == {"completed": 3, "failed": 1}
    failed = ["failed", None, "the 2 is broken"]
    assert world.job(job_id)["result"] == {"parts": [["completed", 1, None], failed, ["completed", 3, None]]}


def test_first_failure_cancels_other_parts_on_request(world: ExampleInstallation, split: Split) -> None:
    job_id = split(1, stop_on_failure=True)
    attempt(world, job_id)
    first, _, last = parts(world, job_id)
    at_work = claim_here(world, last["id"])
    attempt(world, first["id"])
    assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 1}]
    assert attempt(world, job_id)["status"] == "pending"  # it waits for the running part
    assert [part["status"] for part in parts(world, job_id)] == ["failed", "cancelled", "pending"]
    execute_here(world, at_work)
    drain(world)
    job = world.job(job_id)
    assert (job["status"], job["error"]["class"]) == ("failed", "PartsFailed")
    assert job["error"]["message"] == "3 of 3 parts were not completed: the 1 is broken"


def test_failure_resumes_no_parent_without_its_request(world: ExampleInstallation, split: Split) -> None:
    job_id = split(1)
    attempt(world, job_id)
    attempt(world, parts(world, job_id)[0]["id"])
    assert world.rows("SELECT promoted FROM turno.promote(10)") == [{"promoted": 0}]


def test_cancelled_job_cancels_its_parts(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    claim = claim_here(world, parts(world, job_id)[0]["id"])
    assert world.cancel(job_id) == "cancelled"
    assert execute_here(world, claim)["status"] == "cancelled"
    assert {part["status"] for part in parts(world, job_id)} == {"cancelled"}
    assert drain(world) == {}


def test_retry_runs_only_unfinished_work(world: ExampleInstallation, split: Split) -> None:
    job_id = split(2)
    attempt(world, job_id)
    drain(world)
    done = [part["id"] for part in parts(world, job_id) if part["status"] == "completed"]
    again = world.retry(job_id)
    assert again["verdict"] == "accepted"
    split()  # now no part is broken
    assert drain(world)["completed"] >= 2
    one, two, three = parts(world, again["job_id"])
    assert [one["id"], three["id"]] == done
    assert (two["status"], two["parent_id"]) == ("completed", parts(world, job_id)[1]["id"])
    assert world.job(again["job_id"])["result"] == {"parts": [["completed", number, None] for number in (1, 2, 3)]}


def test_job_is_retried_for_failed_items_of_its_parts(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    assert world.retry(job_id)["verdict"] == "not_retryable"
    drain(world)
    assert world.retry(job_id)["verdict"] == "not_retryable"
    last = parts(world, job_id)[2]["id"]
    world.rows("UPDATE background_job_items SET state = 'failed', error = '{}' WHERE (job_id, key) = (%s, '0')", last)
    again = world.retry(job_id)
    drain(world)
    assert [part["parent_id"] == last for part in parts(world, again["job_id"])] == [False, False, True]


def test_progress_adds_up(world: ExampleInstallation, split: Split) -> None:
    job_id = split(2, total=6)
    attempt(world, job_id)
    query = "SELECT done, failed, total FROM background_job_progress WHERE job_id = %s"
    assert world.rows(query, job_id) == [{"done": 0, "failed": 0, "total": 6}]
    drain(world)
    assert world.rows(query, job_id) == [{"done": 4, "failed": 0, "total": 6}]


@pytest.mark.timeout(60)
def test_a_part_writes_no_row_of_its_job(world: ExampleInstallation, split: Split) -> None:
    job_id = split(total=6)
    attempt(world, job_id)
    with psycopg.connect(world.url) as other:
        path = f'"{world.one.schema}".background_job_progress_rows'
        other.execute(f"SELECT FROM {path} WHERE job_id = %s FOR UPDATE", (job_id,))
        for part in parts(world, job_id):
            assert attempt(world, part["id"])["status"] == "completed"


def test_progress_of_a_retried_job_ends_complete(world: ExampleInstallation, split: Split) -> None:
    job_id = split(2, 3, total=6)
    attempt(world, job_id)
    drain(world)
    again = world.retry(job_id)["job_id"]
    split(3, total=6)
    drain(world)
    query = "SELECT done, failed, total FROM background_job_progress WHERE job_id = %s"
    assert world.rows(query, again) == [{"done": 3, "failed": 0, "total": 6}]
    last = world.retry(again)["job_id"]
    split(total=6)
    drain(world)
    assert world.rows(query, last) == [{"done": 6, "failed": 0, "total": 6}]


def test_a_part_has_no_parts(world: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = split(payloads=THREE[:1])
    attempt(world, job_id)
    monkeypatch.setitem(DEEDS, "part", DEEDS["whole"])
    drain(world)
    (part,) = parts(world, job_id)
    assert part["status"] == "failed"
    assert "a part of a job has no parts" in part["error"]["message"]


def test_a_job_is_split_once(world: ExampleInstallation, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = split(payloads=[])
    whole = DEEDS["whole"]
    monkeypatch.setitem(DEEDS, "whole", lambda job, payload: [whole(job, payload), whole(job, payload)])
    job = attempt(world, job_id)
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")


def test_a_bad_payload_makes_no_part(world: ExampleInstallation, split: Split) -> None:
    job = attempt(world, split(payloads=[*THREE, {"how": 1}]))
    assert job["error"]["class"] == "InvalidPayload"
    assert parts(world, job["id"]) == []


def test_more_parts_than_a_user_may_have_jobs_are_refused(world: ExampleInstallation, split: Split) -> None:
    job = attempt(world, split(payloads=THREE * 334))
    assert "make fewer parts" in job["error"]["message"]


def test_a_lost_ticket_of_either_is_made_again(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    world.rows("DELETE FROM turno.tickets")
    world.rows("DELETE FROM turno.part_looks")
    world.sweep()
    drain(world)
    assert world.job(job_id)["status"] == "completed"


def test_word_that_was_lost_is_found_by_the_sweep(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    for part in parts(world, job_id):
        attempt(world, part["id"])
    world.rows("DELETE FROM turno.part_looks")
    assert drain(world) == {}
    world.sweep()
    assert drain(world) == {"completed": 1}


def test_a_part_is_kept_as_long_as_its_job(world: ExampleInstallation, split: Split) -> None:
    job_id = split()
    attempt(world, job_id)
    drain(world)
    world.rows("UPDATE background_jobs SET finished_at = finished_at - interval '99 days' WHERE parent_id = %s", job_id)
    assert world.rows("SELECT job_purge('1 day', 100) AS n") == [{"n": 0}]
    world.rows("UPDATE background_jobs SET finished_at = finished_at - interval '99 days' WHERE id = %s", job_id)
    assert [world.rows("SELECT job_purge('1 day', 100) AS n") for _ in range(3)] == [[{"n": n}] for n in (1, 3, 0)]


def test_a_request_does_the_parts_itself(world: ExampleInstallation, split: Split) -> None:
    split()
    result = world.run(Odd, {"how": "whole"})
    assert result == {"parts": [["completed", number, None] for number in (1, 2, 3)]}
