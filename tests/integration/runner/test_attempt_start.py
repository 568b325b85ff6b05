"""Events between a job's claim and its attempt."""

from datetime import UTC, datetime, timedelta

from tests.attempt_in_process import attempt, claim_in_process, execute_in_process
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty


def test_a_job_that_expired_while_it_was_claimed_does_not_run(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty, expires_at=datetime.now(UTC) + timedelta(hours=1))
    claim = claim_in_process(example, job_id)
    example.rows("UPDATE background_jobs SET expires_at = now() - interval '1 s'")
    job = execute_in_process(example, claim)
    assert (job["status"], job["reason"], job["result"]) == ("cancelled", "expired", None)


def test_a_job_that_is_to_be_cancelled_does_not_run_again(example: ExampleInstallation) -> None:
    """It ran at the request to stop, then lost its ticket, and was put back to wait."""
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    example.rows("UPDATE background_jobs SET cancel_requested_at = now()")
    job = attempt(example, job_id)
    assert (job["status"], job["reason"]) == ("cancelled", "cancelled on request")
