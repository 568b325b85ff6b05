"""/api/schedules: jobs that are made again and again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import quote
from uuid import UUID

from flask import Response

from turno.capabilities.schedules import stored
from turno.capabilities.schedules.job_forms import (
    RecurringJobBody,
    SavedRecurringJob,
    find_job,
    read_recurring_job,
    remove_job,
    saved_body,
    switch_job,
)
from turno.capabilities.schedules.recurrence import InvalidRule
from turno.capabilities.schedules.recurring_job import stored_rule
from turno.capabilities.schedules.stored import Schedules
from turno.tenancy.identity.tenant import Tenant
from turno.web.admission import Scope
from turno.web.requests import KeyPageQuery
from turno.web.responses import Kind, Problem, answer, page_of
from turno.web.routes import Answer, Call, Routes
from turno.web.services import at, services

schedules = Routes("schedules", __name__, tag="schedules")

NEXT_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last moment that has a job, the job, and its status."""

    moment: datetime
    job_id: UUID
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSummary(SavedRecurringJob):
    """One schedule. `problem` is the reason of a moment without a job."""

    schedule_id: UUID
    next_runs: list[datetime]
    last_run: LastRun | None
    problem: str | None
    missed_runs: int
    links: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBody(ScheduleSummary):
    """One schedule with its payload."""

    payload: dict[str, Any]


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
    switch_job(schedules_of(call.scope), name, on=False)
    return find_schedule(call.scope, name)


@schedules.operation("POST /api/schedules/<name>/resume", problems=(Kind.NOT_FOUND,))
def resume(call: Call, name: str) -> ScheduleBody:
    """Resume a schedule.

    The schedule continues with its next moment; moments during the pause do not count as missed. Safe to repeat.
    """
    switch_job(schedules_of(call.scope), name, on=True)
    return find_schedule(call.scope, name)


@schedules.operation("DELETE /api/schedules/<name>", problems=(Kind.NOT_FOUND,))
def remove(call: Call, name: str) -> None:
    """Remove a schedule.

    Its jobs stay, except jobs for future moments.
    """
    remove_job(schedules_of(call.scope), name)


@contextmanager
def schedules_of(scope: Scope) -> Iterator[Schedules]:
    """Lend the schedules of a tenant that a user may see."""
    with services().connection() as connection:
        yield Schedules(connection, scope.tenant, scope.visible_user)


def find_schedule(scope: Scope, name: str) -> ScheduleBody:
    """Return a schedule that this user may see; raises 404 otherwise."""
    row = find_job(schedules_of(scope), name)
    body: ScheduleBody = schedule_body(ScheduleBody, scope.seen(row), scope.tenant, at(""))
    return body


def save_schedule(scope: Scope, name: str, body: RecurringJobBody, *, replace: bool = True) -> str:
    """Make or replace a schedule: created, changed, or exists unless it may `replace`; raises Problem otherwise."""
    wanted = read_recurring_job(name, body, scope.principal.user, scope.tenant.slug)
    with schedules_of(scope) as schedules:
        word = schedules.save(wanted, replace=replace)
    match word:
        case "unknown":
            raise Problem(Kind.NOT_FOUND, "Another user has a schedule of this name; choose another name.")
        case "full":
            most = stored.MOST_SCHEDULES
            problem = f"A tenant has at most {most} schedules, of which a user may save {most // 10}; remove one first."
            raise Problem(Kind.REFUSED, problem)
    return word


def schedule_body(kind: type[Any], row: dict[str, Any], tenant: Tenant, root: str, *, shown: int = NEXT_SHOWN) -> Any:
    """Return a stored schedule as ScheduleSummary or ScheduleBody, with as many of its next moments."""
    problem, moments = row["problem"], []
    try:
        if row["paused_at"] is None:
            moments = list(islice(stored_rule(row, tenant.slug).after(row["now"]), shown))
    except InvalidRule as error:
        problem = f"cannot be read by this host: {error}"
    if row["type"] not in {handler.type for handler in services().registry.handlers}:
        problem = f"no handler has the type {row['type']}"
    link = f"{root}/api/schedules/{quote(row['name'], safe='')}"
    last = LastRun(row["last_at"], row["last_job_id"], row["last_status"]) if row["last_at"] else None
    return saved_body(
        kind,
        row,
        schedule_id=row["id"],
        next_runs=moments,
        last_run=last,
        problem=problem,
        links={"self": link, "pause": f"{link}/pause", "resume": f"{link}/resume"},
    )
