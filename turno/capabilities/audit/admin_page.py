"""GET /admin/audit: the changes by operators, newest first."""

import json
from dataclasses import dataclass
from typing import Any

from flask import Response

from turno.capabilities.audit import stored
from turno.web.pages.drawing import draw
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import LONGEST_TEXT, NOT_GIVEN, NumberCursor
from turno.web.services import as_operator

audit_list = OperatorPages("operator_audit", __name__, template_folder="templates")

SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Filters; a form also sends empty values."""

    actor: str = ""
    tenant: str = ""
    before: NumberCursor = NOT_GIVEN


@audit_list.page("/admin/audit")
def index(visit: OperatorVisit, asked: AuditQuery) -> Response:
    """List the changes by operators."""
    actor, tenant = (text.strip().replace("\0", "")[:LONGEST_TEXT] or None for text in (asked.actor, asked.tenant))
    with as_operator() as operator:
        rows = stored.list_audit(
            operator, companies=visit.companies, actor=actor, tenant=tenant, before=asked.before, limit=SHOWN + 1
        )
    shown = [row | {"words": _words(row["detail"])} for row in rows[:SHOWN]]
    before = shown[-1]["id"] if len(rows) > SHOWN else None
    return draw("turno/admin/audit.html", visit=visit, asked=asked, rows=shown, before=before)


def _words(detail: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in detail.items())
