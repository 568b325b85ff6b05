"""The end of an attempt as a value, the retry policy, and the decision that follows; the runner writes it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import Any, Literal

from turno.errors import InvalidResult

LONGEST = 10 * 365 * 86_400.0  # seconds
Jitter = Literal["none", "percent", "decorrelated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """At most `max_attempts` runs that end in an error, `first` seconds apart, then doubling up to `longest`.

    Jitter: `percent` takes up to a fifth off or adds it, `decorrelated` draws between `first` and three times
    the plain delay, `none` keeps it exact. The result never exceeds `longest`. An attempt that ran for
    `healthy_after` seconds before its error starts the count again: meant for pollers that run for hours.
    """

    max_attempts: int = 4
    first: float = 5.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: Jitter = "percent"
    healthy_after: float | None = None

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts must be at least 1; use RetryPolicy.never() for a single attempt")
        if not (0 <= self.first <= self.longest <= LONGEST and self.factor >= 1):
            raise ValueError("expected 0 <= first <= longest <= 10 years and factor >= 1; correct the retry policy")

    @classmethod
    def never(cls) -> "RetryPolicy":
        """Return the policy of a handler that is never retried after an error."""
        return cls(max_attempts=1)

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


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised; the error is its record already.

    `doubt` names the possible effects outside in spite of the error.
    """

    error: dict[str, Any]
    permanent: bool = False
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The worker is stopping; another worker continues the job from its last checkpoint."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """The job needs the work of another job; it runs again `after` seconds."""

    after: float
    reason: str


@dataclass(frozen=True, slots=True)
class Park:
    """Something outside, named by `doubt`, may have happened; a person must settle it."""

    doubt: str
    error: dict[str, Any]


NotCompleted = Reschedule | Cancel | Raised | HandedBack | Snooze | Park
Outcome = Completed | NotCompleted


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
class CancelJob:
    """End the job as cancelled."""

    reason: str


@dataclass(frozen=True, slots=True)
class AwaitReview:
    """Wait until a person settles `doubt`; the attempt does not count."""

    doubt: str
    reason: str
    error: dict[str, Any]


Decision = Retry | Fail | Release | CancelJob | AwaitReview


def decide(
    outcome: NotCompleted, *, errors: int, max_attempts: int, policy: RetryPolicy, now: datetime | None, chance: float
) -> Decision:
    """Return the record of an outcome; the result of a completed job is written unchanged, with its transaction.

    `errors` were counted before this attempt, `now` is the database's clock where the outcome needs one,
    `chance` is drawn from [0, 1).
    """
    match outcome:
        case Cancel(reason):
            return CancelJob(reason)
        case Reschedule():
            return Release(outcome.due(_needed(now)), "rescheduled", "rescheduled by its handler")
        case HandedBack():
            return Release(_needed(now), "released", "handed back by a stopping worker")
        case Snooze(after, reason):
            return Release(_needed(now) + timedelta(seconds=after), "released", reason)
        case Park(doubt, error):
            return AwaitReview(doubt, f"{doubt} is in doubt: {error['message']}", error)
        case Raised(error, permanent=True):
            return Fail("failed for good", error)
        case Raised(error, doubt=doubt) if errors + 1 >= max_attempts:
            return _give_up(error, doubt)
        case Raised(error):
            return Retry(policy.delay(errors + 1, chance), error)


def _give_up(error: dict[str, Any], doubt: str | None) -> Decision:
    if doubt is None:
        return Fail("no attempts left", error)
    # A failure would hide that something outside may have happened.
    return AwaitReview(doubt, f"no attempts left: {error['message']}", error)


def _needed(now: datetime | None) -> datetime:
    if now is None:
        raise ValueError("deciding when to run again needs the database's clock")
    return now
