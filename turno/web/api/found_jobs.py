"""Jobs of many tenants as the API lists them, and looking for them where only their tenants know."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from turno.dispatch.search_tenants import search_tenants
from turno.jobs.job import Status
from turno.jobs.label import Outcome, outcome
from turno.store.api.jobs import JobFilter
from turno.store.operator.job_search import first_id
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.routes import OperatorCall
from turno.web.services import services

SEARCH_SECONDS = 3.0  # after which the tenants that are left are not asked


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job of some tenant; its own address, with that tenant in X-Schema, has the rest.

    `error` is the error's group: class and first line, without numbers, names in quotation marks and addresses. `at` is
    the time of its end, or of the creation of an open job. `done` and `failed` are items of a failure; `closed_as` is
    set once it was retried or discarded.
    """

    job_id: UUID
    tenant: str
    company: str
    type: str
    status: Status
    outcome: Outcome | None
    done: int | None
    failed: int | None
    error: str | None
    at: datetime
    closed_as: Literal["replayed", "discarded"] | None
    run_at: datetime | None
    parked: bool | None


@dataclass(frozen=True, slots=True)
class FoundPage:
    """Jobs, the latest first; `not_asked` tenants could not be searched in time: name some, or a later `since`."""

    jobs: list[FoundJob]
    next_cursor: str | None
    not_asked: int = 0


def searched(call: OperatorCall, asked: Any) -> FoundPage:
    """Return the jobs of this user, request or payload, of the tenants of the caller's companies."""
    if asked.payload and call.principal.role != "admin":
        # Whoever may not read a secret would find it letter by letter.
        raise Problem(Kind.OPERATORS_ONLY, "Leave out the parameter payload: it takes the role admin.")
    if asked.error or asked.waiting or asked.cursor:
        raise invalid([FieldProblem("error", "error, waiting and cursor go without user, correlation_id and payload")])
    tenants = {tenant.slug: tenant for tenant in services().directory.list_active()}
    found = search_tenants(
        services().connection,
        tenants.values(),
        JobFilter(
            user_id=asked.user,
            statuses=asked.status,
            outcomes=asked.outcome,
            types=asked.type,
            correlation_id=asked.correlation_id,
            text=asked.payload,
            made_from=asked.since and first_id(asked.since),
            made_before=asked.until and first_id(asked.until),
            limit=asked.limit,
        ),
        companies=call.principal.companies,
        tenants=asked.tenant,
        within=SEARCH_SECONDS,
    )
    jobs = [
        FoundJob(
            job_id=row["id"],
            tenant=row["tenant"],
            company=tenants[row["tenant"]].company,
            type=row["type"],
            status=row["status"],
            outcome=outcome(row["status"], row["done"], row["failed"]),
            done=row["done"],
            failed=row["failed"],
            error=row["error"] and row["error"].get("class"),
            at=row["finished_at"] or row["created_at"],
            closed_as="replayed" if row["successor_id"] else None,
            run_at=row["run_at"],
            parked=None,
        )
        for row in found.rows
    ]
    return FoundPage(jobs, None, found.not_asked + len(found.troubles))
