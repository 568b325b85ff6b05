"""The end of an attempt as a value, the retry policy, and the decision that follows; the runner writes it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, Literal

from turno.errors import (
    CancelRequested,
    HandBack,
    HandlerMisuse,
    InDoubt,
    InvalidPayload,
    InvalidResult,
    NeedsReview,
    PermanentFailure,
    Postponed,
)

LONGEST = 10 * 365 * 86_400.0  # seconds
UNLIMITED = 2**31 - 1  # attempts: the largest number of the column
Jitter = Literal["none", "percent", "decorrelated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """At most `max_attempts` runs that end in an error, `first` seconds apart, then doubling up to `longest`.

    Jitter: `percent` takes up to a fifth off or adds it, `decorrelated` draws between `first` and three times
    the plain delay, `none` keeps it exact. The result never exceeds `longest`. An attempt that ran for
    `healthy_after` seconds before its error starts the count again: meant for pollers that run for hours. The first
    `warnings` errors of a job are logged as warnings, later ones as errors, also if the job is retried.
    """

    max_attempts: int = 4
    first: float = 5.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: Jitter = "percent"
    healthy_after: float | None = None
    warnings: int = 3

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts must be at least 1; use RetryPolicy.never() for a single attempt")
        if not (0 <= self.first <= self.longest <= LONGEST and self.factor >= 1):
            raise ValueError("expected 0 <= first <= longest <= 10 years and factor >= 1; correct the retry policy")

    @classmethod
    def never(cls) -> "RetryPolicy":
        """Return the policy of a handler that is never retried after an error."""
        return cls(max_attempts=1)

    @classmethod
    def unlimited(cls, **options: Any) -> "RetryPolicy":
        """Return the policy of a handler that is retried until it succeeds or its job is cancelled."""
        return cls(max_attempts=UNLIMITED, **options)

    def resets_errors(self, ran_for: float) -> bool:
        """Return whether an attempt of this duration, in seconds, clears the earlier errors."""
        return self.healthy_after is not None and ran_for >= self.healthy_after

    def delay(self, errors: int, chance: float) -> float:
        """Return the seconds to wait after the `errors`-th error (from 1); `chance` is drawn from [0, 1)."""
        # The exponent is capped: 2.0 ** 1100 would overflow long after the delay stopped growing.
        plain = min(self.longest, self.first * self.factor ** min(errors - 1, 64))
        match self.jitter:
            case "none":
                return plain
            case "percent":
                return min(self.longest, plain * (0.8 + 0.4 * chance))
            case "decorrelated":
                return min(self.longest, self.first + (3 * plain - self.first) * chance)


CENTURY = timedelta(days=36_525)


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned its result, which was checked and serialised already."""

    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reschedule:
    """Returned by a handler: run again later; it counts as no error. Give `at` or `after` (seconds, or a timedelta).

    Raises ValueError, and InvalidResult for a time that cannot be stored.
    """

    at: datetime | None = None
    after: float | timedelta | None = None

    def __post_init__(self) -> None:
        if (self.at is None) == (self.after is None):
            raise ValueError("Reschedule takes either at= or after=")
        if self.at is not None and self.at.tzinfo is None:
            raise ValueError("Reschedule(at=) needs a time zone, for example datetime.now(UTC)")
        if self.at is not None and not 2000 <= self.at.year < 9999:  # noqa: PLR2004 - the limits of the column
            raise InvalidResult(f"Reschedule(at=) takes a time from 2000 to 9998, not {self.at.isoformat()}")
        if self.after is not None:
            seconds = self.after.total_seconds() if isinstance(self.after, timedelta) else self.after
            if not isfinite(seconds) or abs(seconds) > CENTURY.total_seconds():
                raise InvalidResult(f"Reschedule(after=) takes at most a century, not {seconds} seconds")

    def due(self, now: datetime) -> datetime:
        """Return the moment to run again, given the present one."""
        if self.at is not None:
            return self.at
        return now + (self.after if isinstance(self.after, timedelta) else timedelta(seconds=self.after or 0))


@dataclass(frozen=True, slots=True)
class Cancel:
    """Returned by a handler: this job is pointless now; it ends as cancelled with this reason.

    Raises InvalidResult for a reason that cannot be stored.
    """

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise InvalidResult(f"the reason of Cancel is text, not {type(self.reason).__name__}")
        if "\0" in self.reason or any("\ud800" <= letter <= "\udfff" for letter in self.reason):
            raise InvalidResult("the reason of Cancel holds a NUL character or half a surrogate pair; remove it")


Outcome = Completed | Reschedule | Cancel


@dataclass(frozen=True, slots=True)
class Retry:
    """Wait `delay` seconds, then run again; one more error is counted."""

    delay: float
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fail:
    """End the job as failed and keep it as a dead letter."""

    cause: str
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Release:
    """Run again at `run_at`; the attempt does not count."""

    run_at: datetime
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class AwaitReview:
    """Wait until a person settles `doubt`; the attempt does not count."""

    doubt: str
    reason: str
    error: dict[str, Any]


Decision = Retry | Fail | Release | Cancel | AwaitReview


def decide(
    outcome: Reschedule | Cancel | Exception,
    describe: Callable[[Exception], dict[str, Any]],
    *,
    errors: int,
    max_attempts: int,
    policy: RetryPolicy,
    now: Callable[[], datetime],
    chance: float,
) -> Decision:
    """Return the record of an outcome; the result of a completed job is written unchanged, with its transaction.

    `describe` returns the stored form of an error, `now` the time of the database. `errors` were counted before this
    attempt, `chance` is drawn from [0, 1).
    """
    match outcome:
        case Cancel():
            return outcome
        case CancelRequested():
            return Cancel("cancelled on request")
        case Reschedule():
            return Release(outcome.due(now()), "rescheduled", "rescheduled by its handler")
        case HandBack():
            return Release(now(), "released", "handed back by a stopping worker")
        case Postponed():
            return Release(now() + outcome.pause, "released", str(outcome))
    error = describe(outcome)
    match outcome:
        case NeedsReview(doubt=doubt):
            return AwaitReview(doubt, f"{doubt} is in doubt: {error['message']}", error)
        case PermanentFailure() | HandlerMisuse() | InvalidPayload() | InvalidResult():
            return Fail("failed for good", error)
    if errors + 1 < max_attempts:
        return Retry(policy.delay(errors + 1, chance), error)
    if isinstance(outcome, InDoubt):  # a failure would hide that something outside may have happened
        return AwaitReview(outcome.doubt, f"no attempts left: {error['message']}", error)
    return Fail("no attempts left", error)
