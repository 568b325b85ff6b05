"""Turn a POST into a submission, or into the full list of what is wrong with it."""

from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from functools import cache, partial
from typing import Annotated, Any, Literal, cast

import msgspec
from flask import Request
from flask import request as current
from msgspec import Meta

from turno.dispatch.dispatcher import Behind
from turno.errors import InvalidPayload, NotEnqueued, UnknownJobType
from turno.jobs.converter import converter
from turno.jobs.handler import JobHandler
from turno.jobs.new_job import FARTHEST, NewJob, queue_of, untimely
from turno.store.api import jobs as stored
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.http.query import NOT_GIVEN, Moment, described
from turno.web.http.request_body import JsonBody, check, field_problems, one_at_a_time, read_json_object
from turno.web.http.request_headers import idempotency_key
from turno.web.routes import Call
from turno.web.services import services

RunAt = Annotated[Moment, described("Not before this moment: at most a year ahead and a day past.")]
RunIn = Annotated[
    float,
    Meta(ge=0, le=FARTHEST.total_seconds()),
    described("Not before so many seconds from now, instead of run_at: at most a year."),
]
Band = Annotated[
    Literal["urgent", "normal", "low"], described("Which of this tenant's jobs goes first; no other tenant's.")
]
ExpiresAt = Annotated[
    Moment,
    described("Begin no attempt after this moment but cancel the job; at most a year after run_at."),
]

LONGEST_UNIQUE = 366 * 86_400  # seconds
Lasting = Annotated[
    Literal["open", "for ever"] | Annotated[int, Meta(ge=1, le=LONGEST_UNIQUE)],
    described(
        "For how long the same request is one job: so many seconds, while that job is open, or for ever. Without an "
        "Idempotency-Key it is the same request if its payload is the same."
    ),
]
QueueName = Annotated[str, described("Another of the queues that jobs of this type may wait in.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitBody:
    """The fields of the core; the payload is checked against its handler's own dataclass."""

    payload: msgspec.Raw
    run_at: RunAt = NOT_GIVEN
    run_in: RunIn = NOT_GIVEN
    priority: Band = "normal"
    expires_at: ExpiresAt = NOT_GIVEN
    unique_for: Lasting = NOT_GIVEN
    queue: QueueName = NOT_GIVEN


def read_submission(request: Request, call: Call, job_type: str) -> tuple[NewJob, list[Behind]]:
    """Return the requested job, checked to the last field, and the expressions of capabilities behind its insert.

    Raises Problem: 422 for an unknown type, 413 and 415 for a body that is not read, 400 with every
    problem for the rest. Times that were in order when this Idempotency-Key was first used still are: whoever lost
    the first answer gets it however late.
    """
    handler = known_handler(job_type)
    with one_at_a_time(request):
        body = read_json_object(request)
        wanted, payload, problems = _checked(handler, body)
    if wanted is None:
        raise invalid(problems)
    key = idempotency_key(request.headers)
    if wanted.run_in is not None and wanted.run_at is not None:
        problems.append(FieldProblem("run_in", "may not be given together with run_at"))
    now = services().clock()
    due = wanted.run_at if wanted.run_in is None else now + timedelta(seconds=wanted.run_in)
    late = [FieldProblem(*one) for one in untimely(due, wanted.expires_at, now)]
    parts = services().submission_parts
    problems += _of_queue(handler, wanted.queue) + [it for part in parts for it in part.problems(call.scope, wanted)]
    repeated = partial(_used, call, handler.type, key)
    if problems or (late and not repeated()):
        raise invalid(problems + late)
    new = new_job(
        handler,
        payload,
        call,
        priority=wanted.priority,
        run_at=wanted.run_at,
        run_in=wanted.run_in,
        expires_at=wanted.expires_at,
        idempotency_key=key,
        unique_for=wanted.unique_for,
        queue=wanted.queue,
    )
    behind = (part.behind(call.scope, wanted, repeated=repeated) for part in parts)
    return new, [one for one in behind if one is not None]


def body_type() -> type[SubmitBody]:
    """Return the dataclass with the fields of the core and of the enabled capabilities."""
    return _body_type(tuple(part.body for part in services().submission_parts))


@cache
def _body_type(parts: tuple[type[Any], ...]) -> type[SubmitBody]:
    return cast("type[SubmitBody]", make_dataclass("SubmitBody", (), bases=(*parts, SubmitBody), frozen=True))


def new_job(handler: type[JobHandler[Any]], payload: Any, call: Call, **options: Any) -> NewJob:
    """Return a job of the request's user and trace; raises Problem 400 if its concurrency key is too long."""
    try:
        return NewJob.of(
            handler,
            payload,
            user_id=call.scope.principal.user,
            correlation_id=call.correlation_id,
            trace_context=current.headers.get("traceparent"),
            **options,
        )
    except NotEnqueued as problem:
        raise invalid([FieldProblem("payload", str(problem))]) from problem


def known_handler(job_type: str) -> type[JobHandler[Any]]:
    """Return the handler of a type; raises Problem 422 for an unknown one."""
    try:
        return services().registry.handler(job_type)
    except UnknownJobType:
        raise Problem(Kind.UNKNOWN_TYPE, "No job has this type; /openapi.json lists the types.") from None


def _checked(handler: type[JobHandler[Any]], body: JsonBody) -> tuple[SubmitBody | None, Any, list[FieldProblem]]:
    """Return the body, its payload in plain form, and what is wrong with either."""
    wanted, payload, problems = None, None, []
    try:
        wanted = converter(body_type()).load(body.text)
    except InvalidPayload as error:
        problems = field_problems(error)
    if "payload" in body.value:
        payload, found = check(handler, msgspec.json.decode(body.text, type=dict[str, msgspec.Raw])["payload"])
        problems += found
    return wanted, payload, problems


def _of_queue(handler: type[JobHandler[Any]], queue: str | None) -> list[FieldProblem]:
    try:
        queue_of(handler, queue)
    except NotEnqueued as problem:
        return [FieldProblem("queue", str(problem))]
    return []


def _used(call: Call, job_type: str, key: str | None) -> bool:
    if key is None:
        return False
    with call.scope.reading() as reader:
        return stored.find_by_key(reader, call.scope.principal.user, job_type, key) is not None
