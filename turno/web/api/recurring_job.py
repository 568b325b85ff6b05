"""A recurring job as the body of a request: of schedules and of templates."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from turno.jobs.job import Priority
from turno.jobs.recurrence import LONGEST, LONGEST_CRON, MOST_SPREAD, SHORTEST, InvalidRule, Missed
from turno.jobs.recurring_job import RecurringJob
from turno.web.api.submit import Band, QueueName, known_handler
from turno.web.http.requests import LONGEST_TEXT, NOT_GIVEN, check, described
from turno.web.http.responses import FieldProblem, invalid

Cron = Annotated[
    str,
    described(
        "Minute, hour, day of the month, month, day of the week, in the zone; or @hourly, @daily, @weekly, @monthly,"
        " @yearly. Either this or `every`.",
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
class SavedRecurringJob:
    """A stored recurring job without its payload. A null `queue` is the queue of the type."""

    name: str
    type: str
    queue: str | None
    cron: str | None
    every: int | None
    zone: str
    spread: int
    missed: Missed


def read_recurring_job(name: str, body: RecurringJobBody, user: str, tenant: str) -> RecurringJob:
    """Return the recurring job of a request; raises Problem 422 for an unknown type, 400 with all other problems."""
    handler = known_handler(body.type)
    payload, problems = check(handler, body.payload)
    wanted = RecurringJob(
        name=name,
        handler=handler,
        payload=payload,
        user_id=user,
        cron=body.cron,
        every=body.every,
        zone=body.zone,
        spread=body.spread,
        missed=body.missed,
        priority=Priority[body.priority.upper()],
        queue=body.queue,
    )
    try:
        wanted.rule(tenant)
    except InvalidRule as error:
        problems += [FieldProblem(*one) for one in error.problems]
    if problems:
        raise invalid(problems)
    return wanted
