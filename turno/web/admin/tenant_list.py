"""GET /admin/tenants and /admin/tenants/<slug>: what each tenant has, and what operators set of it."""

from dataclasses import dataclass
from typing import Any, Literal

from flask import Response, request

from turno.store.operator import board, routing
from turno.store.operator.run_time_settings import set_tenant, show_tenant
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.admin.setting_forms import Refused, changes_in
from turno.web.api.admin_tenants import TenantChanges, backend_defaults, require_own_settings
from turno.web.http.problems import Kind, Problem
from turno.web.http.query import Text, read_query, searchable
from turno.web.pages.drawing import draw, go

tenant_list = OperatorPages("operator_tenants", __name__)

SHOWN = 50
Show = Literal["", "waiting", "running", "paused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsQuery:
    """Which tenants are listed: by the beginning of their name and by what they have; a form sends empty ones, too."""

    q: str = ""
    show: Show = ""
    after: Text = ""


@tenant_list.screen("/admin/tenants")
def tenants(visit: OperatorVisit) -> Response:
    """List tenants."""
    asked = read_query(request.args, TenantsQuery, others_ignored=True)
    wanted = board.TenantFilter(q=searchable(asked.q), show=asked.show, after=asked.after, limit=SHOWN + 1)
    with as_operator() as operator:
        found = board.tenants(operator, visit.companies, wanted)
    after = found[SHOWN - 1]["slug"] if len(found) > SHOWN else None
    return draw("turno/admin/tenants.html", visit=visit, asked=asked, tenants=found[:SHOWN], after=after)


@tenant_list.screen("/admin/tenants/<slug>")
def tenant(visit: OperatorVisit, slug: str) -> Response:
    """Show one tenant, with what may be set of it."""
    with as_operator() as operator:
        found = _found(operator, visit, slug)
        types = board.lanes(operator, visit.companies, tenant=slug)
    notice = request.args.get("notice")
    return draw("turno/admin/tenant.html", visit=visit, tenant=found, types=types, notice=notice)


@tenant_list.action("/admin/tenants/<slug>")
def change(visit: OperatorVisit, slug: str) -> Response:
    """Set what the form says of one tenant; which is written in the audit, under the visitor's name."""
    with as_operator() as operator:
        _found(operator, visit, slug)
        try:
            changes = changes_in(request.form, TenantChanges)
        except Refused:
            return go(visit.to(f"/tenants/{slug}", notice="wrong"))
        require_own_settings(visit.principal, changes)
        set_tenant(operator, slug, changes, by=visit.principal.user, companies=visit.companies)
        if "backend" in changes:
            routing.reroute(operator, backend_defaults())
    return go(visit.to(f"/tenants/{slug}", notice="set"))


def _found(operator: board.Operator, visit: OperatorVisit, slug: str) -> dict[str, Any]:
    found = None if "\0" in slug else show_tenant(operator, slug, companies=visit.companies)
    if found is None:
        raise Problem(Kind.NOT_FOUND, "There is no such tenant among those that this token operates.")
    return found
