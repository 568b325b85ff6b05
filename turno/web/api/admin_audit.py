"""/api/admin/audit: what operators changed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from flask import Response

from turno.store.operator.audit import list_audit
from turno.web.http.json_answers import answer, from_row, page_of
from turno.web.http.query import NOT_GIVEN, Moment, NumberCursor, PageSize, Text, described
from turno.web.routes import Answer, Operation, OperatorCall, Routes
from turno.web.services import lend_operator

admin_audit = Routes("admin_audit", __name__, tag="administration")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change: by whom, through which login, of which tenant or of what all share, and of how many jobs.

    `detail` names what is new: a setting's value, a priority, the one job that was asked for.
    """

    id: int
    at: datetime
    actor: str
    login: str
    action: str
    tenant: str | None
    subject: str | None
    jobs: int | None
    detail: dict[str, Any]
    correlation_id: str | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Changes, the latest first."""

    entries: list[AuditEntry]
    next_cursor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which changes."""

    actor: Annotated[Text, described("Only what this operator changed.")] = NOT_GIVEN
    tenant: Annotated[Text, described("Only what was changed of this tenant.")] = NOT_GIVEN
    action: Annotated[Text, described("Only this kind of change, such as `retry` or `tenant set`.")] = NOT_GIVEN
    since: Annotated[Moment, described("Only changes since then.")] = NOT_GIVEN
    cursor: NumberCursor = NOT_GIVEN
    limit: PageSize = 50


LIST = Operation(
    method="GET",
    rule="/api/admin/audit",
    summary="List what operators changed",
    about="Nobody can change or remove an entry. Operators of some companies see what was done to their tenants.",
    access="operator",
    one_tenant=False,
    query=AuditQuery,
    answers={200: Answer(about="A page of changes.", body=AuditPage)},
)


@admin_audit.across(LIST)
def audit(call: OperatorCall) -> Response:
    """List what operators changed."""
    asked = call.query
    with lend_operator()() as operator:
        rows = list_audit(
            operator,
            companies=call.principal.companies,
            actor=asked.actor,
            tenant=asked.tenant,
            action=asked.action,
            since=asked.since,
            before=asked.cursor,
            limit=asked.limit + 1,
        )
    return answer(AuditPage(*page_of(rows, asked.limit, lambda row: from_row(AuditEntry, row), "id")))
