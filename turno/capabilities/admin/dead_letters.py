"""/api/admin/dead-letters: the failed jobs of one tenant."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from flask import Response

from turno.store.api import jobs as stored
from turno.web.api.job_body import ErrorBody, error_body
from turno.web.api.submit import LOCATION, REPLAYED, Accepted, accepted
from turno.web.requests import JobPageQuery, described, read_id
from turno.web.responses import Kind, Problem, from_row, over_quota, page_of
from turno.web.routes import Answer, Call, Routes
from turno.web.services import at, services

admin = Routes("admin", __name__, tag="administration")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A job that failed for good; `replayed_as` is the job that a replay made of it."""

    job_id: UUID
    type: str
    version: int
    user: str
    cause: str
    error: ErrorBody | None
    attempts: list[dict[str, Any]]
    died_at: datetime
    replayed_at: datetime | None
    replayed_as: UUID | None
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """Dead letters, the newest jobs first."""

    dead_letters: list[DeadLetter]
    next_cursor: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersQuery(JobPageQuery):
    """Which dead letters are listed."""

    replayed: Annotated[bool, described("Only replayed dead letters, instead of waiting ones.")] = False


@admin.operation("GET /api/admin/dead-letters", operator=True)
def dead_letters(call: Call, query: DeadLettersQuery) -> DeadLetterPage:
    """List a tenant's dead letters."""
    with call.scope.reading() as reader:
        rows = stored.dead_letters(reader, replayed=query.replayed, before=query.cursor, limit=query.limit + 1)
    seen = [call.scope.seen(row) for row in rows]
    return DeadLetterPage(*page_of(seen, query.limit, _body, "job_id"))


@admin.operation(
    "POST /api/admin/dead-letters/<job_id>/replay",
    answers={202: Answer(about="The new job.", body=Accepted, headers=LOCATION | REPLAYED)},
    problems=(Kind.NOT_FOUND, Kind.ENDED, Kind.QUOTA),
    operator=True,
)
def replay(call: Call, job_id: str) -> Response:
    """Replay a dead letter.

    Makes a new job, for the same user, that continues the failed one. A second call returns the same new job.
    """
    tenant = call.scope.tenant
    unknown = Problem(Kind.NOT_FOUND, "This tenant has no dead letter with this id.")
    wanted = read_id(job_id, unknown)
    with call.scope.reading() as reader:
        if not stored.is_dead_letter(reader, wanted):
            raise unknown
    verdict = services().dispatcher.retry(
        tenant, wanted, user_id=None, correlation_id=call.correlation_id, by=call.scope.operator
    )
    if verdict.word == "quota":
        raise over_quota("The job's user has")
    if verdict.job_id is None:
        raise Problem(Kind.ENDED, "The job of this dead letter cannot run again.")
    return accepted(verdict)


def _body(row: dict[str, Any]) -> DeadLetter:
    job_id = row["job_id"]
    return from_row(
        DeadLetter,
        row,
        user=row["user_id"],
        error=error_body(row["error"], operator=True),
        links={"job": at(f"/api/jobs/{job_id}"), "replay": at(f"/api/admin/dead-letters/{job_id}/replay")},
    )
