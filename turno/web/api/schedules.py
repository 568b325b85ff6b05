"""/api/schedules: jobs that are made again and again."""

from dataclasses import dataclass
from functools import partial

from flask import Response, request

from turno.dispatch import schedules as commands
from turno.schedules.rule import InvalidRule
from turno.store.api import schedules as stored
from turno.web.addresses import at
from turno.web.api.schedule_body import (
    ScheduleBody,
    ScheduleRequest,
    ScheduleSummary,
    new_schedule,
    schedule_body,
    schedule_links,
)
from turno.web.api.submit_body import known_handler
from turno.web.api.typed_body import read_body
from turno.web.auth.tenant_scope import Scope
from turno.web.http.json_answers import answer, page_of
from turno.web.http.payloads import check
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.http.query import NOT_GIVEN, KeyCursor, PageSize
from turno.web.routes import Answer, Call, Operation, Routes
from turno.web.services import services

schedules = Routes("schedules", __name__, tag="schedules")


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """Schedules by name, without payloads; `next_cursor` is null on the last page."""

    schedules: list[ScheduleSummary]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesQuery:
    """Which page."""

    cursor: KeyCursor = NOT_GIVEN
    limit: PageSize = 50


LIST = Operation(
    method="GET",
    rule="/api/schedules",
    summary="List schedules",
    about="Your own schedules by name; an operator's list has everybody's.",
    query=SchedulesQuery,
    answers={200: Answer(about="A page of schedules.", body=SchedulePage)},
)
SHOW = Operation(
    method="GET",
    rule="/api/schedules/<name>",
    summary="Show one schedule",
    answers={200: Answer(about="The schedule, with its next five moments.", body=ScheduleBody)},
    problems=(Kind.NOT_FOUND,),
)
PUT = Operation(
    method="PUT",
    rule="/api/schedules/<name>",
    summary="Save a schedule",
    about="Makes it, or replaces it as a whole; safe to repeat. Jobs that were made for moments still to come are taken"
    " back. A replaced one stays its first user's, and paused if it was.",
    body=ScheduleRequest,
    answers={
        200: Answer(about="Replaced.", body=ScheduleBody),
        201: Answer(about="Made.", body=ScheduleBody, headers={"Location": "The address of the schedule."}),
    },
    problems=(
        Kind.UNKNOWN_TYPE,
        Kind.NOT_FOUND,
        Kind.REFUSED,
    ),
)
PAUSE = Operation(
    method="POST",
    rule="/api/schedules/<name>/pause",
    summary="Pause a schedule",
    about="It makes no jobs until it is resumed; those for moments still to come are taken back. Safe to repeat.",
    answers={200: Answer(about="It is paused.", body=ScheduleBody)},
    problems=(Kind.NOT_FOUND,),
)
RESUME = Operation(
    method="POST",
    rule="/api/schedules/<name>/resume",
    summary="Resume a schedule",
    about="It fires from its next moment on; those that passed meanwhile were not missed. Safe to repeat.",
    answers={200: Answer(about="It fires again.", body=ScheduleBody)},
    problems=(Kind.NOT_FOUND,),
)
REMOVE = Operation(
    method="DELETE",
    rule="/api/schedules/<name>",
    summary="Remove a schedule",
    about="The jobs that it made stay, but for those whose moment is still to come.",
    answers={204: Answer(about="It is gone.")},
    problems=(Kind.NOT_FOUND,),
)


@schedules.guarded(LIST)
def index(call: Call) -> Response:
    """List schedules."""
    limit = call.query.limit
    with call.scope.reading() as reader:
        rows = stored.search(reader, call.scope.visible_user, after=call.query.cursor or "", limit=limit + 1)
    body = partial(schedule_body, ScheduleSummary, tenant=call.scope.tenant, root=at(""), shown=1)
    return answer(SchedulePage(*page_of(rows, limit, body, "name")))


@schedules.guarded(SHOW)
def show(call: Call, name: str) -> Response:
    """Show one schedule."""
    return answer(find_schedule(call.scope, name))


@schedules.guarded(PUT)
def put(call: Call, name: str) -> Response:
    """Make or replace a schedule."""
    body = read_body(request, ScheduleRequest)
    word = save_schedule(call.scope, name, body)
    if word == "created":
        location = schedule_links(name, at(""))["self"]
        return answer(find_schedule(call.scope, name), 201, {"Location": location})
    return answer(find_schedule(call.scope, name))


@schedules.guarded(PAUSE)
def pause(call: Call, name: str) -> Response:
    """Pause a schedule."""
    switch_schedule(call.scope, name, on=False)
    return answer(find_schedule(call.scope, name))


@schedules.guarded(RESUME)
def resume(call: Call, name: str) -> Response:
    """Resume a schedule."""
    switch_schedule(call.scope, name, on=True)
    return answer(find_schedule(call.scope, name))


@schedules.guarded(REMOVE)
def remove(call: Call, name: str) -> Response:
    """Remove a schedule."""
    remove_schedule(call.scope, name)
    return Response(status=204)


def find_schedule(scope: Scope, name: str) -> ScheduleBody:
    """Return a schedule that this user may see; raises the one 404 of all others."""
    with scope.reading() as reader:
        row = stored.find(reader, _storable(name), scope.visible_user)
    if row is None:
        raise no_such_schedule()
    body: ScheduleBody = schedule_body(ScheduleBody, scope.seen(row), scope.tenant, at(""))
    return body


def save_schedule(scope: Scope, name: str, body: ScheduleRequest, *, replace: bool = True) -> str:
    """Make or replace a schedule: created, changed, or exists unless it may `replace`; raises Problem otherwise."""
    handler = known_handler(body.type)
    payload, problems = check(handler, body.payload)
    wanted = new_schedule(name, body, handler, payload, scope.principal.user)
    try:
        commands.checked_rule(wanted, scope.tenant)
    except InvalidRule as error:
        problems += [FieldProblem(*one) for one in error.problems]
    if problems:
        raise invalid(problems)
    with services().connection() as connection:
        word = commands.save(connection, scope.tenant, wanted, only=scope.visible_user, replace=replace)
    match word:
        case "unknown":
            raise Problem(Kind.NOT_FOUND, "Another user has a schedule of this name; choose another name.")
        case "full":
            most = commands.MOST_SCHEDULES
            problem = f"A tenant has at most {most} schedules, of which a user may save {most // 10}; remove one first."
            raise Problem(Kind.REFUSED, problem)
    return word


def switch_schedule(scope: Scope, name: str, *, on: bool) -> None:
    """Pause or resume a schedule; raises the one 404."""
    change = commands.resume if on else commands.pause
    with services().connection() as connection:
        if change(connection, scope.tenant, _storable(name), only=scope.visible_user) == "unknown":
            raise no_such_schedule()


def remove_schedule(scope: Scope, name: str) -> None:
    """Remove a schedule; raises the one 404."""
    with services().connection() as connection:
        if not commands.remove(connection, scope.tenant, _storable(name), only=scope.visible_user):
            raise no_such_schedule()


def no_such_schedule() -> Problem:
    """Return the 404 of every schedule that this user cannot see."""
    return Problem(Kind.NOT_FOUND, "There is no such schedule among yours.")


def _storable(name: str) -> str:
    if "\0" in name:
        raise no_such_schedule()
    return name
