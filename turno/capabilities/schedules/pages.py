"""GET /schedules and /schedules/<name>: the branch's schedules, and the forms that make, change and remove them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import Response, request

from turno.capabilities.schedules import stored
from turno.capabilities.schedules.api import find_schedule, remove_schedule, save_schedule, switch_schedule
from turno.capabilities.schedules.body import ScheduleSummary, schedule_body
from turno.jobs.job import Priority
from turno.jobs.recurrence import MISSED
from turno.store.api import notifications
from turno.web.api.recurring_job import recurring_job_of_form
from turno.web.http.requests import NOT_GIVEN, Text
from turno.web.http.responses import FieldProblem, Kind, Problem
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.services import at, services

schedule_pages = Pages("schedule_pages", __name__, template_folder="templates")

SHOWN = 50
FIELDS = ("name", "type", "payload", "cron", "every", "zone", "spread", "missed", "priority", "queue")
NEW = {"missed": "once", "priority": "normal", "zone": "UTC", "payload": "{}"}
# Fields that have a translated help text; the texts of payload fields come from the handler.
TOLD = frozenset({"name", "payload", "cron", "every", "zone", "spread"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesQuery(PageQuery):
    """The page of schedules."""

    after: Text = NOT_GIVEN


class FormRefused(Exception):
    """The form cannot be saved; `problems` say which fields, and why."""

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__()
        self.problems = problems


@schedule_pages.page("/schedules")
def index(visit: Visit, asked: SchedulesQuery) -> Response:
    """List the schedules, with a form for a new one."""
    return _list(visit, asked, NEW, [])


@schedule_pages.form("/schedules")
def add(visit: Visit) -> Response:
    """Make a schedule."""
    name = request.form.get("name", "").strip()
    try:
        _save(visit, name, replace=False)
    except FormRefused as refused:
        return _list(visit, SchedulesQuery(), request.form, refused.problems, status=Kind.INVALID_REQUEST.status)
    return go(visit.to(f"/schedules/{name}"))


@schedule_pages.page("/schedules/<name>")
def show(visit: Visit, name: str, asked: PageQuery) -> Response:
    """Show one schedule, with its next moments and the form that changes it."""
    return _one(visit, asked, name, None, [])


@schedule_pages.form("/schedules/<name>")
def change(visit: Visit, name: str) -> Response:
    """Change a schedule."""
    find_schedule(visit.scope, name)
    try:
        _save(visit, name, replace=True)
    except FormRefused as refused:
        return _one(visit, PageQuery(), name, request.form, refused.problems, status=Kind.INVALID_REQUEST.status)
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


def _save(visit: Visit, name: str, *, replace: bool) -> None:
    """Save the submitted form; raises FormRefused."""
    try:
        word = save_schedule(visit.scope, name, recurring_job_of_form(request.form), replace=replace)
    except Problem as problem:
        field = {Kind.UNKNOWN_TYPE: "type", Kind.NOT_FOUND: "name", Kind.REFUSED: "name"}.get(problem.kind)
        if not problem.errors and field is None:
            raise
        raise FormRefused([*problem.errors] or [FieldProblem(field or "name", problem.detail)]) from problem
    if word == "exists":
        raise FormRefused([FieldProblem("name", "is taken by another schedule")])


def _list(
    visit: Visit, asked: SchedulesQuery, values: Mapping[str, Any], problems: list[FieldProblem], *, status: int = 200
) -> Response:
    with reading(visit) as reader:
        rows = stored.search(reader, visit.scope.visible_user, after=asked.after or "", limit=SHOWN + 1)
        unread = notifications.count_unread(reader, visit.user)
    found = [schedule_body(ScheduleSummary, row, visit.scope.tenant, at(""), shown=1) for row in rows[:SHOWN]]
    return draw(
        "turno/schedules.html",
        status=status,
        visit=visit,
        asked=asked,
        unread=unread,
        schedules=found,
        after=found[-1].name if len(rows) > SHOWN else None,
        **_form(values, problems),
    )


def _one(
    visit: Visit,
    asked: PageQuery,
    name: str,
    values: Mapping[str, Any] | None,
    problems: list[FieldProblem],
    *,
    status: int = 200,
) -> Response:
    schedule = find_schedule(visit.scope, name)
    with reading(visit) as reader:
        unread = notifications.count_unread(reader, visit.user)
    if values is None:
        values = {field: getattr(schedule, field) for field in FIELDS}
        values = values | {"payload": json.dumps(schedule.payload, indent=2, ensure_ascii=False)}
    return draw(
        "turno/schedule.html",
        status=status,
        visit=visit,
        asked=asked,
        unread=unread,
        schedule=schedule,
        **_form(values, problems),
    )


def _form(values: Mapping[str, Any], problems: list[FieldProblem]) -> dict[str, Any]:
    wrong: dict[str, str] = {}
    for problem in problems:
        field, _, within = problem.field.partition(".")
        told = f"{within}: {problem.problem}" if within else problem.problem
        wrong[field] = f"{wrong[field]}; {told}" if field in wrong else told
    return {
        "values": {field: "" if values.get(field) is None else values[field] for field in FIELDS},
        "wrong": wrong,
        "told": TOLD,
        "types": [handler.type for handler in services().registry.handlers],
        "missed_words": MISSED,
        "queues": services().registry.queues,
        "bands": [one.word for one in Priority],
    }
