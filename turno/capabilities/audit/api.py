"""GET /api/admin/audit: the changes by operators."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from turno.capabilities.audit.stored import list_audit
from turno.web.requests import NOT_GIVEN, Moment, NumberCursor, PageSize, Text, described
from turno.web.responses import from_row, page_of
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator

admin_audit = Routes("admin_audit", __name__, tag="administration")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change: its actor and login, its tenant or subject, and the number of changed jobs.

    `detail` has the new values: of a setting, a priority, or the id of a single job.
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
    """Filters."""

    actor: Annotated[Text, described("Only changes by this operator.")] = NOT_GIVEN
    tenant: Annotated[Text, described("Only changes of this tenant.")] = NOT_GIVEN
    action: Annotated[Text, described("Only this kind of change, such as `retry` or `tenant set`.")] = NOT_GIVEN
    since: Annotated[Moment, described("Only changes since then.")] = NOT_GIVEN
    cursor: NumberCursor = NOT_GIVEN
    limit: PageSize = 50


@admin_audit.operation("GET /api/admin/audit")
def audit(call: OperatorCall, query: AuditQuery) -> AuditPage:
    """List the changes by operators.

    Entries cannot be changed or removed. Operators of some companies see the changes of their tenants.
    """
    with as_operator() as operator:
        rows = list_audit(
            operator,
            companies=call.principal.companies,
            actor=query.actor,
            tenant=query.tenant,
            action=query.action,
            since=query.since,
            before=query.cursor,
            limit=query.limit + 1,
        )
    return AuditPage(*page_of(rows, query.limit, lambda row: from_row(AuditEntry, row), "id"))
