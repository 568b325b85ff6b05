"""/schedules: the schedules of a tenant, with forms that change them; /admin/schedules: those of all tenants."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from flask import Response, request

from turno.capabilities.schedules import stored
from turno.capabilities.schedules.api import (
    ScheduleSummary,
    find_schedule,
    save_schedule,
    schedule_body,
    schedules_of,
)
from turno.capabilities.schedules.job_forms import NEW, form_fields, remove_job, save_form, switch_job
from turno.capabilities.schedules.listed import list_schedules
from turno.capabilities.schedules.rule_words import in_words, next_in_words
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit, PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.requests import NOT_GIVEN, Text
from turno.web.responses import FieldProblem, Kind
from turno.web.services import as_operator, at

schedule_pages = Pages("schedule_pages", __name__, template_folder="templates")
schedule_list = OperatorPages("operator_schedules", __name__)
schedule_pages.add_app_template_global(in_words, "rule_in_words")
schedule_pages.add_app_template_global(next_in_words, "next_in_words")

SHOWN = 50
SHOWN_TO_OPERATORS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesQuery(PageQuery):
    """The page of schedules."""

    after: Text = NOT_GIVEN


@schedule_pages.page("/schedules")
def index(visit: Visit, query: SchedulesQuery) -> Response:
    """List the schedules, with a form for a new one."""
    return _list(visit, query, NEW, [])


@schedule_pages.form("/schedules")
def add(visit: Visit) -> Response:
    """Make a schedule."""
    name = request.form.get("name", "").strip()
    problems = save_form(partial(save_schedule, visit.scope, name, replace=False))
    if problems:
        return _list(visit, SchedulesQuery(), request.form, problems)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.page("/schedules/<name>")
def show(visit: Visit, name: str, query: PageQuery) -> Response:
    """Show one schedule, with its next moments and the form that changes it."""
    return _detail_page(visit, query, name, None, [])


@schedule_pages.form("/schedules/<name>")
def change(visit: Visit, name: str) -> Response:
    """Change a schedule."""
    find_schedule(visit.scope, name)
    problems = save_form(partial(save_schedule, visit.scope, name))
    if problems:
        return _detail_page(visit, PageQuery(), name, request.form, problems)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.form("/schedules/<name>/pause")
def pause(visit: Visit, name: str) -> Response:
    """Pause a schedule."""
    switch_job(schedules_of(visit.scope), name, on=False)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.form("/schedules/<name>/resume")
def resume(visit: Visit, name: str) -> Response:
    """Resume a schedule."""
    switch_job(schedules_of(visit.scope), name, on=True)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.form("/schedules/<name>/remove")
def remove(visit: Visit, name: str) -> Response:
    """Remove a schedule."""
    remove_job(schedules_of(visit.scope), name)
    return go(visit.to("/schedules"))


def _list(visit: Visit, query: SchedulesQuery, values: Mapping[str, Any], problems: list[FieldProblem]) -> Response:
    with reading(visit) as reader:
        rows = stored.search(reader, visit.scope.visible_user, after=query.after or "", limit=SHOWN + 1)
    bodies = [schedule_body(ScheduleSummary, row, visit.scope.tenant, at(""), shown=1) for row in rows[:SHOWN]]
    return draw(
        "turno/schedules.html",
        status=Kind.INVALID_REQUEST.status if problems else 200,
        visit=visit,
        query=query,
        schedules=bodies,
        after=bodies[-1].name if len(rows) > SHOWN else None,
        fields=form_fields(values, problems, visit.localizer),
    )


def _detail_page(
    visit: Visit, query: PageQuery, name: str, values: Mapping[str, Any] | None, problems: list[FieldProblem]
) -> Response:
    schedule = find_schedule(visit.scope, name)
    if values is None:
        values = asdict(schedule) | {"payload": json.dumps(schedule.payload, indent=2, ensure_ascii=False)}
    return draw(
        "turno/schedule.html",
        status=Kind.INVALID_REQUEST.status if problems else 200,
        visit=visit,
        query=query,
        schedule=schedule,
        fields=form_fields(values, problems, visit.localizer),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleListQuery:
    """Behind which tenant and which of its schedules the page begins."""

    tenant: Text = ""
    name: Text = ""


@schedule_list.page("/admin/schedules")
def all_tenants(visit: OperatorVisit, query: ScheduleListQuery) -> Response:
    """List schedules by tenant and name."""
    with as_operator() as operator:
        after = (query.tenant, query.name)
        bodies = list_schedules(operator, companies=visit.companies, after=after, limit=SHOWN_TO_OPERATORS + 1)
    page = bodies[:SHOWN_TO_OPERATORS]
    last = page[-1] if len(bodies) > SHOWN_TO_OPERATORS else None
    return draw("turno/admin/schedules.html", visit=visit, query=query, schedules=page, last=last)
