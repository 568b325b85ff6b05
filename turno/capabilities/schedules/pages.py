"""GET /schedules and /schedules/<name>: the branch's schedules, and the forms that make, change and remove them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from flask import Response, request

from turno.capabilities.schedules import stored
from turno.capabilities.schedules.api import find_schedule, remove_schedule, save_schedule, switch_schedule
from turno.capabilities.schedules.body import ScheduleSummary, schedule_body
from turno.store.api import notifications
from turno.web.api.recurring_job import NEW, form_fields, save_form
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.requests import NOT_GIVEN, Text
from turno.web.responses import FieldProblem, Kind
from turno.web.services import at

schedule_pages = Pages("schedule_pages", __name__, template_folder="templates")

SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesQuery(PageQuery):
    """The page of schedules."""

    after: Text = NOT_GIVEN


@schedule_pages.page("/schedules")
def index(visit: Visit, asked: SchedulesQuery) -> Response:
    """List the schedules, with a form for a new one."""
    return _list(visit, asked, NEW, [])


@schedule_pages.form("/schedules")
def add(visit: Visit) -> Response:
    """Make a schedule."""
    name = request.form.get("name", "").strip()
    problems = save_form(partial(save_schedule, visit.scope, name, replace=False))
    if problems:
        return _list(visit, SchedulesQuery(), request.form, problems)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.page("/schedules/<name>")
def show(visit: Visit, name: str, asked: PageQuery) -> Response:
    """Show one schedule, with its next moments and the form that changes it."""
    return _one(visit, asked, name, None, [])


@schedule_pages.form("/schedules/<name>")
def change(visit: Visit, name: str) -> Response:
    """Change a schedule."""
    find_schedule(visit.scope, name)
    problems = save_form(partial(save_schedule, visit.scope, name))
    if problems:
        return _one(visit, PageQuery(), name, request.form, problems)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.form("/schedules/<name>/pause")
def pause(visit: Visit, name: str) -> Response:
    """Pause a schedule."""
    switch_schedule(visit.scope, name, on=False)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.form("/schedules/<name>/resume")
def resume(visit: Visit, name: str) -> Response:
    """Resume a schedule."""
    switch_schedule(visit.scope, name, on=True)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.form("/schedules/<name>/remove")
def remove(visit: Visit, name: str) -> Response:
    """Remove a schedule."""
    remove_schedule(visit.scope, name)
    return go(visit.to("/schedules"))


def _list(visit: Visit, asked: SchedulesQuery, values: Mapping[str, Any], problems: list[FieldProblem]) -> Response:
    with reading(visit) as reader:
        rows = stored.search(reader, visit.scope.visible_user, after=asked.after or "", limit=SHOWN + 1)
        unread = notifications.count_unread(reader, visit.user)
    found = [schedule_body(ScheduleSummary, row, visit.scope.tenant, at(""), shown=1) for row in rows[:SHOWN]]
    return draw(
        "turno/schedules.html",
        status=Kind.INVALID_REQUEST.status if problems else 200,
        visit=visit,
        asked=asked,
        unread=unread,
        schedules=found,
        after=found[-1].name if len(rows) > SHOWN else None,
        fields=form_fields(values, problems, visit.localizer),
    )


def _one(
    visit: Visit, asked: PageQuery, name: str, values: Mapping[str, Any] | None, problems: list[FieldProblem]
) -> Response:
    schedule = find_schedule(visit.scope, name)
    with reading(visit) as reader:
        unread = notifications.count_unread(reader, visit.user)
    if values is None:
        values = asdict(schedule) | {"payload": json.dumps(schedule.payload, indent=2, ensure_ascii=False)}
    return draw(
        "turno/schedule.html",
        status=Kind.INVALID_REQUEST.status if problems else 200,
        visit=visit,
        asked=asked,
        unread=unread,
        schedule=schedule,
        fields=form_fields(values, problems, visit.localizer),
    )
