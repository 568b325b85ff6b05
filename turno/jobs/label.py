"""The one word that people see for a job, the same in the API, the pages, the command line and notifications."""

from datetime import datetime
from typing import Literal

from turno.jobs.job import Status

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


def label(
    status: Status,
    *,
    now: datetime,
    run_at: datetime | None,
    failing: bool,
    stopping: bool,
    reason: str | None,
    done: int,
    failed: int,
) -> Label:
    """Return the word for a job.

    `run_at` is None for a job that waits until a person decides, `failing` says that its last attempt ended in
    an error, `stopping` that somebody asked it to stop; `done` and `failed` count its items.
    """
    match status:
        case Status.PENDING if run_at is None:
            return "needs review"
        case Status.PENDING if run_at is not None and run_at > now:
            return "retrying" if failing else "scheduled"
        case Status.PENDING:
            return "waiting"
        case Status.RUNNING:
            return "cancelling" if stopping else "running"
        case Status.COMPLETED:
            return completed(done, failed)
        case Status.FAILED:
            return "failed"
        case Status.CANCELLED:
            return "expired" if reason == "expired" else "cancelled"


def completed(done: int, failed: int) -> Label:
    """Return the word for a job that ran to its end: a batch is "done" only if none of its items failed."""
    if not failed:
        return "done"
    return "done, some failed" if done else "not done, all failed"
