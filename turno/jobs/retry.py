"""How long to wait before the next attempt: arithmetic only, the random number is passed in."""

from dataclasses import dataclass
from typing import Literal

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
