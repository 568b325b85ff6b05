"""The errors, as one short tree; each message names the remedy."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turno.jobs.job_context import Part


NOT_A_FIELD = "is not a field of this request"


class TurnoError(Exception):
    """Anything Turno refuses or gives up on."""


class InvalidSettings(TurnoError):
    """One or more settings are wrong; all of them are listed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("cannot start, please correct:\n" + "\n".join(f"  {problem}" for problem in problems))
        self.problems = problems


class UserError(TurnoError):
    """Raised by a handler: its message is a sentence for the user of the job, shown unchanged.

    Of any other exception users see a reference only, unless the handler names its class in `user_errors`.
    """


class UnknownJobType(TurnoError):
    """No handler is registered for this type."""

    def __init__(self, job_type: str, known: list[str]) -> None:
        super().__init__(f"no handler is registered for {job_type[:80]!r}; known types: {', '.join(known) or 'none'}")
        self.job_type = job_type


class InvalidPayload(UserError):
    """The payload does not fit the job type; each problem names its field."""

    def __init__(self, problems: list[dict[str, str]]) -> None:
        super().__init__("; ".join(f"{p['field']}: {p['problem']}" for p in problems))
        self.problems = problems

    @property
    def of_unknown_fields(self) -> bool:
        """Return whether the payload fits, but for fields that this release does not declare."""
        return all(problem["problem"] == NOT_A_FIELD for problem in self.problems)


class NotEnqueued(TurnoError):
    """The job was not made; the message has the problem and the remedy."""


class EndsAttempt(TurnoError):
    """Raised inside a handler by its context; let it pass: it ends the attempt, and no item caused it."""


class ClaimLost(EndsAttempt):
    """The attempt no longer holds its job: another worker may run it, so that no further write is allowed."""


class NotStarted(TurnoError):
    """The attempt could not be started now, for a lock or for want of room; nothing of it was begun."""


class HandlerMisuse(TurnoError):
    """The handler used an operation of the executor, such as a commit; see the message."""


class LimitExceeded(HandlerMisuse):
    """A value is too large to be stored; the message is the limit, the field's name its first word."""

    @property
    def field(self) -> str:
        """Return the name of the field."""
        return str(self).split()[0]


class InvalidResult(TurnoError):
    """The handler's result cannot be stored; return a dict of plain JSON values under 256 KB."""


class RateLimited(TurnoError):
    """A user or a tenant has reached the limit `name` of TURNO_LIMITS; it admits more in `retry_in` seconds."""

    def __init__(self, name: str, retry_in: float) -> None:
        super().__init__(f"the limit {name} is reached: repeat this in {retry_in:.0f} s, or raise it in TURNO_LIMITS")
        self.name = name
        self.retry_in = retry_in


class PermanentFailure(UserError):
    """Raised by a handler: trying again cannot help, so the job fails for good."""


class NotIssued(UserError):
    """Raised by the call of `job.once`: it certainly did nothing outside, so it may be made again."""


class InDoubt(EndsAttempt, UserError):
    """Something outside, named by `doubt`, may have happened: the job is tried again, and parked in place of failed."""

    def __init__(self, doubt: str, message: str) -> None:
        super().__init__(message)
        self.doubt = doubt


class NeedsReview(InDoubt):
    """The job is parked until a person settles `doubt`."""


class Postponed(EndsAttempt):
    """The job needs the work of another job or release; it runs again after `pause`, and nothing is counted."""

    def __init__(self, message: str, pause: timedelta = timedelta(seconds=5)) -> None:
        super().__init__(message)
        self.pause = pause


class CancelRequested(EndsAttempt):
    """Raised inside a handler after a request to stop its job; let it pass."""


class HandBack(EndsAttempt):
    """The worker is stopping, and the job is at a safe place."""


class Waits(EndsAttempt):
    """The job waits for other jobs, and the end of its attempt is committed; their end calls `handle` again."""


class PartsFailed(PermanentFailure):
    """Parts of a job failed or were cancelled; a retry of the job retries them."""

    def __init__(self, parts: Sequence["Part"]) -> None:
        unwell = [part for part in parts if not part.completed]
        super().__init__(f"{len(unwell)} of {len(parts)} parts were not completed: {unwell[0].error}")
        self.parts = parts
