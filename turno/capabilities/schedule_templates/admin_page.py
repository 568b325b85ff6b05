"""/admin/templates: the templates of schedules, with forms that add, pause, resume and remove."""

from flask import Response, request

from turno.capabilities.schedule_templates.admin_api import (
    list_all,
    remove_template,
    save_template,
    switch_template,
)
from turno.jobs.recurrence import MISSED
from turno.web.api.recurring_job import recurring_job_of_form
from turno.web.http.responses import FieldProblem, Kind, Problem, invalid
from turno.web.pages.drawing import draw, go
from turno.web.pages.operator_pages import OperatorPages, OperatorVisit
from turno.web.services import services

template_list = OperatorPages("operator_templates", __name__, template_folder="templates")


@template_list.page("/admin/templates")
def listed(visit: OperatorVisit) -> Response:
    """List the templates, with a form for a new one."""
    return _page(visit, [])


@template_list.form("/admin/templates", everywhere=True)
def change(visit: OperatorVisit) -> Response:
    """Add, pause, resume or remove a template."""
    name, by = request.form.get("name", "").strip(), visit.principal.user
    match request.form.get("do"):
        case "add":
            try:
                if save_template(name, recurring_job_of_form(request.form), by, replace=False) == "exists":
                    raise invalid([FieldProblem("name", "is the name of another template")])
            except Problem as problem:
                if problem.kind not in (Kind.INVALID_REQUEST, Kind.UNKNOWN_TYPE):
                    raise
                return _page(visit, [*problem.errors] or [FieldProblem("type", problem.detail)])
        case "pause" | "resume" as do:
            switch_template(name, by, pause=do == "pause")
        case "remove":
            remove_template(name, by)
        case _:
            raise invalid([])
    return go(visit.to("/templates"))


def _page(visit: OperatorVisit, problems: list[FieldProblem]) -> Response:
    return draw(
        "turno/admin/templates.html",
        status=Kind.INVALID_REQUEST.status if problems else 200,
        visit=visit,
        live=False,
        templates=list_all(visit.companies),
        problems=problems,
        values=request.form,
        types=sorted(handler.type for handler in services().registry.handlers),
        missed_words=MISSED,
        queues=services().registry.queues,
    )
