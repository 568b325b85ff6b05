"""GET /api/admin/audit and /admin/audit: the changes by operators."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from flask import Response

from turno.capabilities.audit import stored
from turno.capabilities.audit.stored import list_audit
from turno.web.pages.drawing import draw
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import LONGEST_TEXT, NOT_GIVEN, Moment, NumberCursor, PageSize, Text, described
from turno.web.responses import from_row, page_of
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator

admin_audit = Routes("admin_audit", __name__, tag="administration")
audit_list = OperatorPages("operator_audit", __name__, template_folder="templates")

SHOWN = 50


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPageQuery:
    """Filters; a form also sends empty values."""

    actor: str = ""
    tenant: str = ""
    before: NumberCursor = NOT_GIVEN


@audit_list.page("/admin/audit")
def index(visit: OperatorVisit, query: AuditPageQuery) -> Response:
    """List the changes by operators."""
    actor, tenant = (text.strip().replace("\0", "")[:LONGEST_TEXT] or None for text in (query.actor, query.tenant))
    with as_operator() as operator:
        rows = stored.list_audit(
            operator, companies=visit.companies, actor=actor, tenant=tenant, before=query.before, limit=SHOWN + 1
        )
    shown = [row | {"words": _words(row["detail"])} for row in rows[:SHOWN]]
    before = shown[-1]["id"] if len(rows) > SHOWN else None
    return draw("turno/admin/audit.html", visit=visit, query=query, rows=shown, before=before)


def _words(detail: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in detail.items())
