"""/api/admin/templates and /admin/templates: recurring jobs of all tenants; the time zones of tenants."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from flask import Response, request

from turno.capabilities.schedules.job_forms import (
    NEW,
    RecurringJobBody,
    SavedRecurringJob,
    find_job,
    form_fields,
    read_recurring_job,
    remove_job,
    save_form,
    saved_body,
    switch_job,
)
from turno.capabilities.schedules.listed import list_schedules
from turno.capabilities.schedules.recurrence import known_zone
from turno.capabilities.schedules.recurring_job import ANY_TENANT
from turno.capabilities.schedules.templates import Templates, list_templates, set_zone
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import KeyPageQuery, described
from turno.web.responses import FieldProblem, Kind, Problem, answer, from_row, invalid, page_of
from turno.web.routes import Answer, OperatorCall, Routes
from turno.web.services import as_operator

admin_templates = Routes("admin_templates", __name__, tag="administration")
template_list = OperatorPages("operator_templates", __name__, template_folder="templates")

USER = "template"  # of the jobs that templates of the API and the page make


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateBody(SavedRecurringJob):
    """A template, with the numbers of its copies: `tenants`, of which `paused` by the tenant, and with `problems`."""

    payload: dict[str, Any]
    tenants: int
    paused: int
    problems: int


@dataclass(frozen=True, slots=True)
class TemplateList:
    """All templates, by name."""

    templates: list[TemplateBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCopy:
    """The copy of a template in a tenant."""

    tenant: str
    zone: str
    paused_at: datetime | None
    paused_by: str | None
    tenant_paused_at: datetime | None
    next_at: datetime | None
    missed_runs: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class CopyPage:
    """Copies by tenant; `next_cursor` is null on the last page."""

    copies: list[TenantCopy]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneBody:
    """The time zone of a tenant; null: that of each template."""

    zone: Annotated[str, described("Such as America/Argentina/Buenos_Aires.", max_length=64)] | None


@admin_templates.operation("GET /api/admin/templates")
def index(call: OperatorCall) -> TemplateList:
    """List the templates of schedules."""
    return TemplateList(list_all(call.principal.companies))


@admin_templates.operation("GET /api/admin/templates/<name>/copies", problems=(Kind.NOT_FOUND,))
def copies(call: OperatorCall, query: KeyPageQuery, name: str) -> CopyPage:
    """List the copies of a template."""
    find_template(name)
    with as_operator() as operator:
        rows = list_schedules(
            operator,
            name,
            companies=call.principal.companies,
            after=(query.cursor, name),
            limit=query.limit + 1,
        )
    return CopyPage(*page_of(rows, query.limit, partial(from_row, TenantCopy), "tenant"))


@admin_templates.operation(
    "PUT /api/admin/templates/<name>",
    answers={200: Answer(about="Replaced.", body=TemplateBody), 201: Answer(about="Created.", body=TemplateBody)},
    everywhere=True,
    problems=(Kind.UNKNOWN_TYPE,),
)
def put(call: OperatorCall, body: RecurringJobBody, name: str) -> Response:
    """Save a template.

    It applies to every active tenant, present and future. A changed template fires from its next moment on; a copy that
    its tenant paused stays paused. Safe to repeat.
    """
    word = save_template(name, body, call.principal.user)
    return answer(find_template(name), 201 if word == "created" else 200)


@admin_templates.operation("POST /api/admin/templates/<name>/pause", everywhere=True, problems=(Kind.NOT_FOUND,))
def pause(call: OperatorCall, name: str) -> TemplateBody:
    """Pause a template in all tenants."""
    switch_job(templates_by(call.principal.user), name, on=False)
    return find_template(name)


@admin_templates.operation("POST /api/admin/templates/<name>/resume", everywhere=True, problems=(Kind.NOT_FOUND,))
def resume(call: OperatorCall, name: str) -> TemplateBody:
    """Resume a template.

    From the next moment of each tenant on; earlier moments do not count as missed. Copies that a tenant paused stay
    paused.
    """
    switch_job(templates_by(call.principal.user), name, on=True)
    return find_template(name)


@admin_templates.operation("DELETE /api/admin/templates/<name>", everywhere=True, problems=(Kind.NOT_FOUND,))
def remove(call: OperatorCall, name: str) -> None:
    """Remove a template.

    The jobs that it made stay.
    """
    remove_job(templates_by(call.principal.user), name)


@admin_templates.operation("PUT /api/admin/template-zones/<tenant>", everywhere=True, problems=(Kind.NOT_FOUND,))
def put_zone(call: OperatorCall, body: ZoneBody, tenant: str) -> None:
    """Set the time zone of a tenant for its copies."""
    if body.zone is not None and not known_zone(body.zone):
        raise invalid([FieldProblem("zone", "is no time zone known here, such as America/Argentina/Buenos_Aires")])
    with as_operator() as operator:
        if "\0" in tenant or not set_zone(operator, tenant, body.zone, by=call.principal.user):
            raise Problem(Kind.NOT_FOUND, "There is no such tenant.")


@contextmanager
def templates_by(user: str = "") -> Iterator[Templates]:
    """Lend the templates of all tenants; `user` is the actor of changes."""
    with as_operator() as operator:
        yield Templates(operator, user)


def list_all(companies: Collection[str] | None) -> list[TemplateBody]:
    """Return all templates, with the numbers of copies in the tenants of these companies."""
    with as_operator() as operator:
        return [saved_body(TemplateBody, row) for row in list_templates(operator, companies=companies)]


def find_template(name: str) -> TemplateBody:
    """Return a template; raises Problem 404 for an unknown name."""
    return saved_body(TemplateBody, find_job(templates_by(), name))


def save_template(name: str, body: RecurringJobBody, by: str, *, replace: bool = True) -> str:
    """Save a template: created, changed, or exists unless it may `replace`; raises Problem for an invalid one."""
    wanted = read_recurring_job(name, body, USER, ANY_TENANT)
    with templates_by(by) as templates:
        return templates.save(wanted, replace=replace)


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
            switch_job(templates_by(by), name, on=do == "resume")
        case "remove":
            remove_job(templates_by(by), name)
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
