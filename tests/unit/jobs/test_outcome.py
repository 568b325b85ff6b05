from datetime import UTC, datetime, timedelta

import pytest

from turno.errors import (
    CancelRequested,
    HandBack,
    InDoubt,
    InvalidPayload,
    NeedsReview,
    PermanentFailure,
    Postponed,
)
from turno.jobs.outcome import AwaitReview, Cancel, Decision, Fail, Release, Reschedule, Retry, RetryPolicy, decide

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ERROR = {"class": "ValueError", "message": "no"}


@pytest.mark.parametrize(
    ("outcome", "errors", "decision"),
    [
        (Cancel("no orders left"), 0, Cancel("no orders left")),
        (CancelRequested(), 0, Cancel("cancelled on request")),
        (ValueError(), 0, Retry(5.0, ERROR)),
        (ValueError(), 2, Retry(20.0, ERROR)),  # the third error, a fourth attempt follows
        (ValueError(), 3, Fail("no attempts left", ERROR)),
        (ValueError(), 9, Fail("no attempts left", ERROR)),
        (InDoubt("cae", "no"), 2, Retry(20.0, ERROR)),
        (InDoubt("cae", "no"), 3, AwaitReview("cae", "no attempts left: no", ERROR)),
        (NeedsReview("cae", "no"), 0, AwaitReview("cae", "cae is in doubt: no", ERROR)),
        (Postponed("another does it"), 3, Release(NOW + timedelta(seconds=5), "released", "another does it")),
        (PermanentFailure(), 0, Fail("failed for good", ERROR)),
        (InvalidPayload([]), 0, Fail("failed for good", ERROR)),
        (Reschedule(after=90), 3, Release(NOW + timedelta(seconds=90), "rescheduled", "rescheduled by its handler")),
        (
            Reschedule(after=timedelta(hours=2)),
            3,
            Release(NOW + timedelta(hours=2), "rescheduled", "rescheduled by its handler"),
        ),
        (Reschedule(at=NOW), 0, Release(NOW, "rescheduled", "rescheduled by its handler")),
        (HandBack(), 3, Release(NOW, "released", "handed back by a stopping worker")),
    ],
)
def test_outcome_has_its_consequence(outcome: Reschedule | Cancel | Exception, errors: int, decision: Decision) -> None:
    assert decided(outcome, errors, RetryPolicy(jitter="none")) == decision


def test_handler_without_retry_fails_at_first_error() -> None:
    assert decided(ValueError(), 0, RetryPolicy.never()) == Fail("no attempts left", ERROR)


def decided(outcome: Reschedule | Cancel | Exception, errors: int, policy: RetryPolicy) -> Decision:
    return decide(
        outcome,
        lambda _: ERROR,
        errors=errors,
        max_attempts=policy.max_attempts,
        policy=policy,
        now=lambda: NOW,
        chance=0.5,
    )


@pytest.mark.parametrize("wrong", [{}, {"at": NOW, "after": 5.0}, {"at": datetime(2026, 1, 1)}])  # noqa: DTZ001
def test_reschedule_takes_one_moment_with_its_zone(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Reschedule"):
        Reschedule(**wrong)  # type: ignore[arg-type]
