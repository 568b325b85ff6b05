"""/api/schedules: jobs that are made again and again."""

from dataclasses import dataclass
from functools import partial

from flask import Response

from turno.capabilities.schedules import changes, stored
from turno.capabilities.schedules.body import ScheduleBody, ScheduleSummary, schedule_body
from turno.web.admission import Scope
from turno.web.api.recurring_job import RecurringJobBody, read_recurring_job
from turno.web.requests import KeyPageQuery
from turno.web.responses import Kind, Problem, answer, page_of
from turno.web.routes import Answer, Call, Routes
from turno.web.services import at, services

schedules = Routes("schedules", __name__, tag="schedules")


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Schedules by name, without payloads; `next_cursor` is null on the last page."""

    schedules: list[ScheduleSummary]
    next_cursor: str | None


@schedules.operation("GET /api/schedules")
def index(call: Call, query: KeyPageQuery) -> SchedulePage:
    """List schedules.

    Your own schedules by name; an operator's list has the schedules of all users.
    """
    limit = query.limit
    with call.scope.reading() as reader:
        rows = stored.search(reader, call.scope.visible_user, after=query.cursor, limit=limit + 1)
    body = partial(schedule_body, ScheduleSummary, tenant=call.scope.tenant, root=at(""), shown=1)
    return SchedulePage(*page_of(rows, limit, body, "name"))


@schedules.operation("GET /api/schedules/<name>", problems=(Kind.NOT_FOUND,))
def show(call: Call, name: str) -> ScheduleBody:
    """Show one schedule."""
    return find_schedule(call.scope, name)


@schedules.operation(
    "PUT /api/schedules/<name>",
    answers={
        200: Answer(about="Replaced.", body=ScheduleBody),
        201: Answer(about="Made.", body=ScheduleBody, headers={"Location": "The address of the schedule."}),
    },
    problems=(Kind.UNKNOWN_TYPE, Kind.NOT_FOUND, Kind.REFUSED),
)
def put(call: Call, body: RecurringJobBody, name: str) -> Response:
    """Save a schedule.

    Makes it, or replaces it as a whole; safe to repeat. Jobs for future moments are removed. A replaced schedule keeps
    its first user, and remains paused.
    """
    word = save_schedule(call.scope, name, body)
    saved = find_schedule(call.scope, name)
    return answer(saved, 201, {"Location": saved.links["self"]}) if word == "created" else answer(saved)


@schedules.operation("POST /api/schedules/<name>/pause", problems=(Kind.NOT_FOUND,))
def pause(call: Call, name: str) -> ScheduleBody:
    """Pause a schedule.

    The schedule creates no jobs until it is resumed; jobs for future moments are removed. Safe to repeat.
    """
    switch_schedule(call.scope, name, on=False)
    return find_schedule(call.scope, name)


@schedules.operation("POST /api/schedules/<name>/resume", problems=(Kind.NOT_FOUND,))
def resume(call: Call, name: str) -> ScheduleBody:
    """Resume a schedule.

    The schedule continues with its next moment; moments during the pause do not count as missed. Safe to repeat.
    """
    switch_schedule(call.scope, name, on=True)
    return find_schedule(call.scope, name)


@schedules.operation("DELETE /api/schedules/<name>", problems=(Kind.NOT_FOUND,))
def remove(call: Call, name: str) -> None:
    """Remove a schedule.

    Its jobs stay, except jobs for future moments.
    """
    remove_schedule(call.scope, name)


def find_schedule(scope: Scope, name: str) -> ScheduleBody:
    """Return a schedule that this user may see; raises 404 otherwise."""
    with scope.reading() as reader:
        row = stored.find(reader, _storable(name), scope.visible_user)
    if row is None:
        raise no_such_schedule()
    body: ScheduleBody = schedule_body(ScheduleBody, scope.seen(row), scope.tenant, at(""))
    return body


def save_schedule(scope: Scope, name: str, body: RecurringJobBody, *, replace: bool = True) -> str:
    """Make or replace a schedule: created, changed, or exists unless it may `replace`; raises Problem otherwise."""
    wanted = read_recurring_job(name, body, scope.principal.user, scope.tenant.slug)
    with services().connection() as connection:
        word = changes.save(connection, scope.tenant, wanted, only=scope.visible_user, replace=replace)
    match word:
        case "unknown":
            raise Problem(Kind.NOT_FOUND, "Another user has a schedule of this name; choose another name.")
        case "full":
            most = changes.MOST_SCHEDULES
            problem = f"A tenant has at most {most} schedules, of which a user may save {most // 10}; remove one first."
            raise Problem(Kind.REFUSED, problem)
    return word


def switch_schedule(scope: Scope, name: str, *, on: bool) -> None:
    """Pause or resume a schedule; raises 404 if the user may not see it."""
    with services().connection() as connection:
        if changes.switch(connection, scope.tenant, _storable(name), on=on, only=scope.visible_user) == "unknown":
            raise no_such_schedule()


def remove_schedule(scope: Scope, name: str) -> None:
    """Remove a schedule; raises 404 if the user may not see it."""
    with services().connection() as connection:
        if not changes.remove(connection, scope.tenant, _storable(name), only=scope.visible_user):
            raise no_such_schedule()


def no_such_schedule() -> Problem:
    """Return the 404 of every schedule that this user cannot see."""
    return Problem(Kind.NOT_FOUND, "There is no such schedule among yours.")


def _storable(name: str) -> str:
    if "\0" in name:
        raise no_such_schedule()
    return name
