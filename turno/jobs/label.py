"""The one word that people see for a job, the same in the API, the pages, the command line and notifications."""

from collections.abc import Mapping
from typing import Any, Literal

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


def label(job: Mapping[str, Any]) -> Label:
    """Return the word for a job as it is stored, with the counts of its items and the database's clock.

    Its `run_at` is None while it waits until a person decides.
    """
    match Status(job["status"]):
        case Status.PENDING if job["run_at"] is None:
            return "needs review"
        case Status.PENDING if job["run_at"] > job["now"]:
            return "scheduled" if job["error"] is None else "retrying"
        case Status.PENDING:
            return "waiting"
        case Status.RUNNING:
            return "running" if job["cancel_requested_at"] is None else "cancelling"
        case Status.COMPLETED:
            return completed(job["done"] or 0, job["failed"] or 0)
        case Status.FAILED:
            return "failed"
        case Status.CANCELLED:
            return "expired" if job["reason"] == "expired" else "cancelled"


def completed(done: int, failed: int) -> Label:
    """Return the word for a job that ran to its end: a batch is "done" only if none of its items failed."""
    if not failed:
        return "done"
    return "done, some failed" if done else "not done, all failed"
