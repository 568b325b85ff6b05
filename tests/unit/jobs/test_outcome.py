from datetime import UTC, datetime, timedelta

import pytest

from turno.jobs.outcome import (
    AwaitReview,
    Cancel,
    CancelJob,
    Decision,
    Fail,
    HandedBack,
    NotCompleted,
    Park,
    Raised,
    Release,
    Reschedule,
    Retry,
    RetryPolicy,
    Snooze,
    decide,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ERROR = {"class": "ValueError", "message": "no"}


@pytest.mark.parametrize(
    ("outcome", "errors", "decision"),
    [
        (Cancel("no orders left"), 0, CancelJob("no orders left")),
        (Raised(ERROR), 0, Retry(5.0, ERROR)),
        (Raised(ERROR), 2, Retry(20.0, ERROR)),  # the third error, a fourth attempt follows
        (Raised(ERROR), 3, Fail("no attempts left", ERROR)),
        (Raised(ERROR), 9, Fail("no attempts left", ERROR)),
        (Raised(ERROR, doubt="cae"), 2, Retry(20.0, ERROR)),
        (Raised(ERROR, doubt="cae"), 3, AwaitReview("cae", "no attempts left: no", ERROR)),
        (Park("cae", ERROR), 0, AwaitReview("cae", "cae is in doubt: no", ERROR)),
        (Snooze(5, "another does it"), 3, Release(NOW + timedelta(seconds=5), "released", "another does it")),
        (Raised(ERROR, permanent=True), 0, Fail("failed for good", ERROR)),
        (Reschedule(after=90), 3, Release(NOW + timedelta(seconds=90), "rescheduled", "rescheduled by its handler")),
        (
            Reschedule(after=timedelta(hours=2)),
            3,
            Release(NOW + timedelta(hours=2), "rescheduled", "rescheduled by its handler"),
        ),
        (Reschedule(at=NOW), 0, Release(NOW, "rescheduled", "rescheduled by its handler")),
        (HandedBack(), 3, Release(NOW, "released", "handed back by a stopping worker")),
    ],
)
def test_outcome_has_its_consequence(outcome: NotCompleted, errors: int, decision: Decision) -> None:
    policy = RetryPolicy(jitter="none")
    assert decide(outcome, errors=errors, max_attempts=4, policy=policy, now=NOW, chance=0.5) == decision


def test_handler_without_retry_fails_at_first_error() -> None:
    decided = decide(Raised(ERROR), errors=0, max_attempts=1, policy=RetryPolicy.never(), now=None, chance=0.5)
    assert decided == Fail("no attempts left", ERROR)


def test_running_again_at_a_time_needs_the_clock() -> None:
    with pytest.raises(ValueError, match="clock"):
        decide(HandedBack(), errors=0, max_attempts=4, policy=RetryPolicy(), now=None, chance=0.5)


@pytest.mark.parametrize("wrong", [{}, {"at": NOW, "after": 5.0}, {"at": datetime(2026, 1, 1)}])  # noqa: DTZ001
def test_reschedule_takes_one_moment_with_its_zone(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Reschedule"):
        Reschedule(**wrong)  # type: ignore[arg-type]
