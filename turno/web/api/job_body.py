"""A job as the API shows it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct

from turno.jobs.job import Priority, Status
from turno.jobs.label import Label, Outcome, label, outcome, waiting_for
from turno.tracing import trace_id
from turno.web.responses import from_row
from turno.web.services import job_links

RETRY_WHILE_OPEN = "2"
CRASH = "Crash"  # error class recorded by a worker's parent whose child died; the message is the cause
UNEXPECTED = "UnexpectedError"

Band = Literal["urgent", "normal", "low"]
_NO_WORD = re.compile(r"\W+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, in items; `percent` never goes back and is 100 only at the end.

    Where items are not counted, `percent` is of the parts that a job was split into.
    """

    done: int
    failed: int
    total: int
    percent: int
    message: str | None


@dataclass(frozen=True, slots=True)
class Parts:
    """How many parts a job was split into, and how they stand; `failed` counts the cancelled ones, too."""

    total: int
    ended: int
    failed: int


class ErrorBody(Struct, frozen=True, rename={"class_": "class"}):
    """The error of a job.

    Of an error that was not written for users they see its `reference`, which the log has as `error_id`; operators see
    its class, message and traceback too.
    """

    class_: str
    message: str
    traceback: str | None
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBody:
    """One job; `outcome` and `status` are for programs, `label` is for people.

    `outcome` is null while the job is open. A job that ran to its end is `completed`, `completed_with_failures` if some
    of its items failed, or `nothing_done` if all did; its `status` is `completed` in each case. `payload` is null in
    lists and streams, and if it has more than 8,000 bytes as stored. `revision` grows with every change of the job or
    its progress. `waiting_for` is the reason why a job waits, such as a pause or a missing worker for its type.
    `attributes` are of capabilities, by name, such as `tags`.
    """

    job_id: UUID
    type: str
    status: Status
    outcome: Outcome | None
    label: Label
    reason: str | None
    waiting_for: str | None
    priority: Band
    user: str
    progress: Progress
    parts: Parts | None
    payload: dict[str, Any] | None
    result: dict[str, Any] | None
    error: ErrorBody | None
    attempts: int
    max_attempts: int
    run_at: datetime | None
    expires_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested_at: datetime | None
    execution_time_seconds: float | None
    parent_id: UUID | None
    successor_id: UUID | None
    origin: str | None
    attributes: dict[str, Any]
    correlation_id: str | None
    trace_id: str | None
    revision: int
    links: dict[str, str]

    @property
    def standing(self) -> str:
        """Return the fields that change without a new revision: with time, or at the end of a part."""
        ended = f"{self.parts.ended} ended" if self.parts and not self.status.ended else None
        return ", ".join(word for word in (self.label, self.waiting_for, ended) if word)

    @property
    def etag(self) -> str:
        """Tell two states apart."""
        return f"{self.revision}.{_NO_WORD.sub('-', self.standing)}"


def job_body(row: dict[str, Any], root: str, *, operator: bool) -> JobBody:
    """Return a stored job as visible to its user, or to an operator; `root` is the prefix of its links."""
    return from_row(
        JobBody,
        row,
        job_id=row["id"],
        status=Status(row["status"]),
        outcome=outcome(row["status"], row["reason"], row["done"], row["failed"]),
        label=label(row),
        payload=row.get("payload"),
        waiting_for=waiting_for(row),
        priority=Priority(row["priority"]).word,
        user=row["user_id"],
        progress=_progress(row),
        parts=Parts(**row["parts"]) if row["parts"] else None,
        error=error_body(row["error"], operator=operator),
        attempts=row["attempt"],
        trace_id=trace_id(row["trace_context"]),
        execution_time_seconds=None if row["run_seconds"] is None else round(row["run_seconds"], 3),
        revision=row["revision"] + row["progress_revision"],
        links=job_links(row["id"], root),
    )


def error_body(error: dict[str, Any] | None, *, operator: bool) -> ErrorBody | None:
    """Return a stored error as a user, or an operator, may see it."""
    if error is None:
        return None
    reference, named = error.get("reference"), str(error.get("class", "Error"))
    if operator or for_users(error):
        trace = error.get("traceback") if operator else None
        return ErrorBody(named, str(error.get("message", "")), trace, reference)
    by_reference = f" by the reference {reference}" if reference else ""
    return ErrorBody(
        UNEXPECTED, f"Something unexpected went wrong; an operator can find out what{by_reference}.", None, reference
    )


def for_users(error: Mapping[str, Any]) -> bool:
    """Return whether a stored error's message is for the job's user: written by its handler or by Turno."""
    return error.get("for_users") is True or (error.get("class") == CRASH and "traceback" not in error)


def _progress(row: dict[str, Any]) -> Progress:
    done, failed, total = row["done"] or 0, row["failed"] or 0, row["total"] or 0
    ended_well = row["status"] == Status.COMPLETED
    counted, of = (
        (row["parts"]["ended"], row["parts"]["total"]) if row["parts"] and not total else (done + failed, total)
    )
    percent = 100 if ended_well else min(99, 100 * counted // max(1, of))
    return Progress(done, failed, total, percent, row["message"])
