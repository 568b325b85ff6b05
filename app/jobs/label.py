"""The one word that people see for a job, the same in the API, the pages, the command line and notifications."""

from datetime import datetime
from typing import Literal

from app.jobs.job import Status

Label = Literal[
    "waiting",
    "scheduled",
    "retrying",
    "needs review",
    "running",
    "cancelling",
    "done",
    "failed",
    "cancelled",
    "expired",
]


def label(
    status: Status, *, now: datetime, run_at: datetime | None, failing: bool, stopping: bool, reason: str | None
) -> Label:
    """Return the word for a job.

    `run_at` is None for a job parked until a person decides, `failing` says that its last attempt ended in
    an error, `stopping` that somebody asked it to stop.
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
            return "done"
        case Status.FAILED:
            return "failed"
        case Status.CANCELLED:
            return "expired" if reason == "expired" else "cancelled"
