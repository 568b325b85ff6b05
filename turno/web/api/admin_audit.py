"""/api/admin/audit: what operators changed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from turno.store.operator.audit import list_audit
from turno.web.http.json_answers import from_row, page_of
from turno.web.http.query import NOT_GIVEN, Moment, NumberCursor, PageSize, Text, described
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator

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


@admin_audit.operation("GET /api/admin/audit")
def audit(call: OperatorCall, query: AuditQuery) -> AuditPage:
    """List what operators changed.

    Nobody can change or remove an entry. Operators of some companies see what was done to their tenants.
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
