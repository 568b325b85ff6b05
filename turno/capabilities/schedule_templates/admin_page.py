"""/admin/templates: the templates of schedules, with forms that add, pause, resume and remove."""

from collections.abc import Mapping

from flask import Response, request

from turno.capabilities.schedule_templates.admin_api import list_all, remove_template, save_template, switch_template
from turno.web.api.recurring_job import NEW, form_fields, save_form
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.responses import FieldProblem, Kind, invalid

template_list = OperatorPages("operator_templates", __name__, template_folder="templates")


@template_list.page("/admin/templates")
def listed(visit: OperatorVisit) -> Response:
    """List the templates, with a form for a new one."""
    return _page(visit, NEW, [])


@template_list.form("/admin/templates", everywhere=True)
def change(visit: OperatorVisit) -> Response:
    """Add, pause, resume or remove a template."""
    name, by = request.form.get("name", "").strip(), visit.principal.user
    match request.form.get("do"):
        case "add":
            problems = save_form(lambda body: save_template(name, body, by, replace=False))
            if problems:
                return _page(visit, request.form, problems)
        case "pause" | "resume" as do:
            switch_template(name, by, pause=do == "pause")
        case "remove":
            remove_template(name, by)
        case _:
            raise invalid([])
    return go(visit.to("/templates"))


def _page(visit: OperatorVisit, values: Mapping[str, str], problems: list[FieldProblem]) -> Response:
    return draw(
        "turno/admin/templates.html",
        status=Kind.INVALID_REQUEST.status if problems else 200,
        visit=visit,
        live=False,
        templates=list_all(visit.companies),
        fields=form_fields(values, problems, visit.localizer),
    )
