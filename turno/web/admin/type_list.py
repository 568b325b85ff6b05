"""GET /admin/types and /admin/types/<name>: what operators set of each job type, beside what its code says."""

from flask import Response, request

from turno.store.operator.run_time_settings import set_type
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.admin.setting_forms import Refused, changes_in
from turno.web.api.admin_types import TypeBody, TypeChanges, all_types
from turno.web.http.problems import Kind, Problem
from turno.web.pages.drawing import draw, go

type_list = OperatorPages("operator_types", __name__)

TERMS = ("timeout", "max_attempts", "retention_days")


@type_list.screen("/admin/types")
def types(visit: OperatorVisit) -> Response:
    """List the job types."""
    return draw("turno/admin/types.html", visit=visit, types=all_types(), terms=TERMS)


@type_list.screen("/admin/types/<name>")
def job_type(visit: OperatorVisit, name: str) -> Response:
    """Show one type, with what may be set of it for all tenants."""
    notice = request.args.get("notice")
    return draw("turno/admin/type.html", visit=visit, type=_found(name), terms=TERMS, notice=notice, live=False)


@type_list.action("/admin/types/<name>")
def change(visit: OperatorVisit, name: str) -> Response:
    """Set what the form says of one type; which is written in the audit, under the visitor's name."""
    if not visit.principal.everywhere:
        raise Problem(Kind.OPERATORS_ONLY, "All companies share this: it takes an operator of every company.")
    _found(name)
    try:
        changes = changes_in(request.form, TypeChanges)
    except Refused:
        return go(visit.to(f"/types/{name}", notice="wrong"))
    with as_operator() as operator:
        set_type(operator, name, changes, by=visit.principal.user)
    return go(visit.to(f"/types/{name}", notice="set"))


def _found(name: str) -> TypeBody:
    for one in all_types():
        if one.type == name:
            return one
    raise Problem(Kind.NOT_FOUND, "There is no job type of this name here.")
