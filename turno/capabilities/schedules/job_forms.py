"""A recurring job of schedules and templates: the body of a request, and the form of a page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from flask import request

from turno.capabilities.schedules.recurrence import LONGEST, LONGEST_CRON, MOST_SPREAD, SHORTEST, InvalidRule, Missed
from turno.capabilities.schedules.recurring_job import RecurringJob, Row
from turno.capabilities.schedules.rule_words import EVERY_DAY, choices, chosen, cron_of
from turno.capabilities.schedules.templates import Opened, RecurringJobs
from turno.errors import InvalidPayload
from turno.jobs.converter import converter, payload_text
from turno.jobs.job import Priority
from turno.jobs.json_text import NotJson
from turno.web.api.submit import Band, QueueName, known_handler
from turno.web.pages.localizer import Localizer
from turno.web.requests import LONGEST_FIELD, LONGEST_TEXT, NOT_GIVEN, described, field_problems
from turno.web.responses import B, FieldProblem, Kind, Problem, from_row, invalid
from turno.web.services import services

Cron = Annotated[
    str,
    described(
        "Minute, hour, day of the month, month, day of the week, in the zone; or @hourly, @daily, @weekly, @monthly,"
        " @yearly. A delay may follow: 0 3 L * * +36h is 36 hours after 3:00 of a month's last day."
        " Either this or `every`.",
        min_length=1,
        max_length=LONGEST_CRON,
    ),
]
Every = Annotated[int, described("Seconds between two moments.", ge=SHORTEST, le=LONGEST)]
Zone = Annotated[str, described("The time zone of cron, such as America/Argentina/Buenos_Aires.", max_length=64)]
Spread = Annotated[
    int,
    described(
        "The largest delay of a moment, in seconds; the names of tenant and recurring job decide the delay. Without it:"
        " 0 for cron, and for `every` the interval itself.",
        ge=0,
        le=MOST_SPREAD,
    ),
]
MissedRuns = Annotated[
    Missed,
    described("The jobs of moments without a run of maintenance: none, one job for all of them, or the last 100."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringJobBody:
    """The body of a PUT; the payload is checked against the dataclass of its type."""

    type: Annotated[str, described("A type of job.", min_length=1, max_length=LONGEST_TEXT)]
    payload: Annotated[msgspec.Raw, described("The payload of each job.")]
    cron: Cron = NOT_GIVEN
    every: Every = NOT_GIVEN
    zone: Zone = "UTC"
    spread: Spread = NOT_GIVEN
    missed: MissedRuns = "once"
    priority: Band = "normal"
    queue: QueueName = NOT_GIVEN


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """The rule of a stored recurring job. A null `queue` is the queue of the type."""

    name: str
    type: str
    queue: str | None
    cron: str | None
    every: int | None
    zone: str
    spread: int
    missed: Missed
    paused_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRecurringJob(StoredRule):
    """A stored recurring job without its payload."""

    priority: Literal["urgent", "normal", "low"]
    user: str
    created_at: datetime


def read_recurring_job(name: str, body: RecurringJobBody, user: str, tenant: str) -> RecurringJob:
    """Return the recurring job of a request; raises Problem 422 for an unknown type, 400 with all other problems."""
    given = {field.name: getattr(body, field.name) for field in fields(body)}
    try:
        return RecurringJob.checked(name, known_handler(given.pop("type")), user, given, tenant)
    except InvalidRule as error:
        raise invalid([FieldProblem(field[:LONGEST_FIELD], problem) for field, problem in error.problems]) from None


def find_job(opened: Opened, name: str) -> Row:
    """Return a stored recurring job that this user may see; raises Problem 404 otherwise."""
    with opened as stored:
        row = None if "\0" in name else stored.find(name)
        if row is None:
            raise no_such_job(stored)
    return row


def switch_job(opened: Opened, name: str, *, on: bool) -> None:
    """Pause or resume a recurring job; raises Problem 404 if this user may not see it."""
    with opened as stored:
        if "\0" in name or not stored.switch(name, on=on):
            raise no_such_job(stored)


def remove_job(opened: Opened, name: str) -> None:
    """Remove a recurring job; raises Problem 404 if this user may not see it."""
    with opened as stored:
        if "\0" in name or not stored.remove(name):
            raise no_such_job(stored)


def no_such_job(stored: RecurringJobs) -> Problem:
    """Return the 404 of every recurring job that this user cannot see."""
    return Problem(Kind.NOT_FOUND, f"There is no such {stored.noun}.")


def saved_body(kind: type[B], row: Row, **computed: Any) -> B:
    """Return a stored recurring job as a body."""
    return from_row(kind, row, priority=Priority(row["priority"]).word, user=row["user_id"], **computed)


EXPERT_FIELDS = ("cron", "every", "spread", "missed", "priority", "queue")
FIELDS = ("days", "at", "name", "type", "payload", "cron", "every", "zone", "spread", "missed", "priority", "queue")
NEW = {"days": EVERY_DAY, "at": "03:00", "missed": "once", "priority": "normal", "zone": "UTC", "payload": "{}"}
LONGEST_NUMBER = 9  # digits
FIELD_OF_KIND = {Kind.UNKNOWN_TYPE: "type", Kind.NOT_FOUND: "name", Kind.REFUSED: "name"}


def save_form(save: Callable[[RecurringJobBody], str]) -> list[FieldProblem]:
    """Save the recurring job of the present form; returns the problems of its fields, none if it was saved."""
    try:
        word = save(_body(request.form))
    except Problem as problem:
        if problem.errors:
            return [*problem.errors]
        if problem.kind not in FIELD_OF_KIND:
            raise
        return [FieldProblem(FIELD_OF_KIND[problem.kind], problem.detail)]
    return [FieldProblem("name", "is taken: choose another name")] if word == "exists" else []


def form_fields(values: Mapping[str, Any], problems: list[FieldProblem], localizer: Localizer) -> dict[str, Any]:
    """Return the context of the form: the values of its fields, their problems, and the choices."""
    wrong: dict[str, str] = {}
    for problem in problems:
        field, _, within = problem.field.partition(".")
        text = f"{within}: {problem.problem}" if within else problem.problem
        wrong[field] = f"{wrong[field]}; {text}" if field in wrong else text
    days = choices(localizer)
    if "days" not in values and (times := chosen(values.get("cron"), days)):
        values = {**values, **times, "cron": None}
    return {
        "days": days,
        "new": values is NEW,
        "expert": not values.get("days") or not wrong.keys().isdisjoint(EXPERT_FIELDS),
        "saved": {field: "" if values.get(field) is None else values[field] for field in FIELDS},
        "wrong": wrong,
        "types": {handler.type: localizer.title(handler.type) for handler in services().registry.handlers},
        "queues": {queue: queue for queue in services().registry.queues},
    }


def _body(form: Mapping[str, str]) -> RecurringJobBody:
    """Return the body that a form has; an empty field counts as left out. Raises Problem 400 with all problems.

    A cron expression or an interval takes precedence over the days and the time.
    """
    given: dict[str, Any] = {"type": form.get("type", "")}
    days = form.get("days", "")
    if days and not form.get("cron", "").strip() and not form.get("every", "").strip():
        given["cron"] = cron_of(days, form.get("at", ""))
        if given["cron"] is None:
            raise invalid([FieldProblem("at", "is a time of day such as 03:00")])
    for name in ("cron", "zone", "missed", "priority", "queue"):
        if text := form.get(name, "").strip():
            given[name] = text
    for name in ("every", "spread"):
        if text := form.get(name, "").strip():
            whole = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
            given[name] = int(text) if whole else text
    try:
        payload = payload_text(form.get("payload", "").strip() or "{}")
        body: RecurringJobBody = converter(RecurringJobBody).convert(given | {"payload": {}})
    except NotJson as error:
        raise invalid([FieldProblem("payload", str(error))]) from error
    except InvalidPayload as error:
        raise invalid(field_problems(error)) from error
    return replace(body, payload=payload)
