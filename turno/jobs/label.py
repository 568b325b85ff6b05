"""The words about a job, the same in API, pages, commands and notifications: outcome, label, reason of a wait."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from turno.jobs.job import Status

# `outcome_of` in the tenant schema has the same rule, for the statistics and filters.
Outcome = Literal["completed", "completed_with_failures", "nothing_done", "failed", "cancelled", "expired"]
Label = Literal[
    "waiting",
    "scheduled",
    "retrying",
    "needs review",
    "running",
    "cancelling",
    "done",
    "done, some failed",
    "not done, all failed",
    "failed",
    "cancelled",
    "expired",
]
STATUS_AFTER: dict[Outcome, Status] = {
    "completed": Status.COMPLETED,
    "completed_with_failures": Status.COMPLETED,
    "nothing_done": Status.COMPLETED,
    "failed": Status.FAILED,
    "cancelled": Status.CANCELLED,
    "expired": Status.CANCELLED,
}
EXPIRED = "expired"  # reason of a job that no worker began before its `expires_at`
# Outcomes that operators see as failures: the job failed, or some or all of its items did.
FAILURES: tuple[Outcome, ...] = ("failed", "nothing_done", "completed_with_failures")


LABELS: dict[Outcome, Label] = {
    "completed": "done",
    "completed_with_failures": "done, some failed",
    "nothing_done": "not done, all failed",
    "failed": "failed",
    "cancelled": "cancelled",
    "expired": "expired",
}
# Messages of labels without the number of failed items, which is in the labels' own messages.
UNCOUNTED: dict[Label, str] = {"done, some failed": "some failed", "not done, all failed": "none done"}


def outcome(status: str, reason: str | None, done: int | None, failed: int | None) -> Outcome | None:
    """Return the outcome of a job with this status, reason and counts of items; None while it is open."""
    match Status(status):
        case Status.COMPLETED if failed:
            return "completed_with_failures" if done else "nothing_done"
        case Status.COMPLETED:
            return "completed"
        case Status.FAILED:
            return "failed"
        case Status.CANCELLED:
            return "expired" if reason == EXPIRED else "cancelled"
    return None


def label(job: Mapping[str, Any]) -> Label:
    """Return the label of a stored job, with the counts of its items and the database's clock.

    `run_at` is None for a job in review.
    """
    ended = outcome(job["status"], job["reason"], job["done"], job["failed"])
    if ended is not None:
        return LABELS[ended]
    if job["cancel_requested_at"] is not None:
        return "cancelling"  # also between the claim and the first statement of the attempt
    match Status(job["status"]):
        case Status.PENDING if job["run_at"] is None:
            return "needs review"
        case Status.PENDING if job["run_at"] > job["now"]:
            return "scheduled" if job["error"] is None else "retrying"
        case Status.PENDING:
            return "waiting"
    return "running"


def control_label(row: Mapping[str, Any], now: datetime) -> Label:
    """Return the label of a job as the control schema knows it: by its outcome, or by its ticket if it is open."""
    if row["outcome"] is not None:
        return LABELS[row["outcome"]]
    if row["status"] == Status.RUNNING:
        return "cancelling" if row["stage"] == "cancelling" else "running"
    if row["parked"]:
        return "needs review"
    if row["run_at"] is None or row["run_at"] <= now:
        return "waiting"
    return "retrying" if row["stage"] == "retrying" else "scheduled"


def waiting_for(job: Mapping[str, Any]) -> str | None:
    """Return the reason why a stored job waits; None if a worker can take it."""
    if job["lacks"] is None:
        return None
    return lacking(job["lacks"], job_type=job["type"], version=job["version"], queue=job["queue"])


LACKS = {
    "type": "no living worker knows {type}",
    "version": "no living worker knows version {version} of {type}: they know another",
    "paused tenant": "an operator paused the tenant",
    "paused type": "an operator paused {type}",
    "key": "other jobs of its concurrency key go before it",
    "order": "the job of an earlier event of its key has not ended",
    "dead letter": "the job of an earlier event of its key failed for good: replay or discard its dead letter",
    "parts": "the parts that it was split into have not all ended",
    "queue": "no living worker that knows {type} serves the queue {queue}",
}


def lacking(lacks: str, *, job_type: str, version: int, queue: str) -> str:
    """Return the sentence for the answer of `turno.lacking` or `job_lacks` about this type, version and queue."""
    return LACKS.get(lacks, "no worker is alive").format(type=job_type, version=version, queue=queue)


def counted(number: int, noun: str) -> str:
    """Return a number with its thousands apart and its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
