"""Search and change jobs of many tenants: the operations that the API and the pages share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from turno.dispatch.across_tenants import FoundInTenants, command_across, search_tenants, within_tenant
from turno.jobs.label import found_label, label, outcome
from turno.jobs.operator_command import CommandReport, OperatorCommand
from turno.store.operator.job_search import Cursor, JobsWanted, Row, find_jobs, find_quickly
from turno.web.auth import Principal
from turno.web.responses import FieldProblem, Kind, Problem, invalid
from turno.web.services import as_operator, services

SEARCH_SECONDS = 3.0  # after which a search of the API skips the remaining tenants
PAGE_SEARCH_SECONDS = 0.15  # the same for a page, which then names the filters that narrow the search


@dataclass(frozen=True, slots=True)
class Found:
    """Jobs, the latest first, and the number of tenants that were not searched."""

    jobs: list[Row]
    not_asked: int = 0


def search(principal: Principal, wanted: JobsWanted, *, before: Cursor | None, limit: int, page: bool = False) -> Found:
    """Return the wanted jobs with their labels; a search within tenants has no further pages.

    Raises Problem 400 or 403 for filters that are not allowed together or to this role, and SearchTooLong for a page.
    """
    if wanted.of_tenants:
        return _within_tenants(principal, wanted, before, limit, PAGE_SEARCH_SECONDS if page else SEARCH_SECONDS)
    find = find_quickly if page else find_jobs
    with as_operator() as operator:
        rows = find(operator, wanted, before=before, limit=limit)
    now = services().clock()
    return Found([row | {"label": found_label(row, now)} for row in rows])


def change(
    principal: Principal, command: OperatorCommand, wanted: JobsWanted, correlation_id: str, **bounds: Any
) -> CommandReport:
    """Change the wanted jobs as `command_across`; raises Problem 400 for a filter that the command does not allow."""
    with refused_as_problem(), as_operator() as operator:
        return command_across(
            operator,
            services().dispatcher,
            services().directory,
            command,
            wanted,
            by=principal.user,
            correlation_id=correlation_id,
            **bounds,
        )


@contextmanager
def refused_as_problem() -> Iterator[None]:
    """Raise the ValueError of a filter or a command as Problem 400 that names its field."""
    try:
        yield
    except ValueError as error:
        field, _, problem = str(error).partition(": ")
        raise invalid([FieldProblem(field, problem) if problem else FieldProblem("command", field)]) from None


def _within_tenants(
    principal: Principal, wanted: JobsWanted, before: Cursor | None, limit: int, seconds: float
) -> Found:
    if wanted.text and principal.role != "admin":
        # Repeated searches in payloads would find a redacted secret letter by letter.
        raise Problem(Kind.OPERATORS_ONLY, "Leave out the parameter payload: it takes the role admin.")
    if wanted.error or wanted.waiting or before:
        raise invalid([FieldProblem("error", "error, waiting and cursor go without user, correlation_id and payload")])
    active = services().directory.list_active()
    found: FoundInTenants = search_tenants(
        services().connection,
        active,
        within_tenant(wanted, limit),
        companies=principal.companies,
        tenants=wanted.tenants,
        within=seconds,
    )
    companies = {tenant.slug: tenant.company for tenant in active}
    jobs = [_found(row, companies[row["tenant"]], principal) for row in found.rows]
    return Found(jobs, found.not_asked + len(found.troubles))


def _found(row: Row, company: str, principal: Principal) -> Row:
    """Return a job of a tenant in the form of a job of the control schema."""
    error = row["error"] if principal.role == "admin" else services().redaction.error(row["error"])
    return row | {
        "job_id": row["id"],
        "company": company,
        "label": label(row),
        "outcome": outcome(row["status"], row["done"], row["failed"]),
        "error": None if error is None else f"{error.get('class')}: {error.get('message')}",
        "at": row["finished_at"] or row["created_at"],
        "closed_as": "replayed" if row["successor_id"] else None,
        "parked": None,
    }
