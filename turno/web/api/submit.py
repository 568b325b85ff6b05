"""POST /api/jobs/<type>: check the body, then insert a job, or run it at once without background jobs."""

import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, make_dataclass
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, cast
from uuid import UUID

import msgspec
from flask import Request, Response
from flask.globals import request_ctx
from markupsafe import Markup
from msgspec import Meta

from turno.dispatch.dispatcher import Behind, Verdict
from turno.errors import InvalidPayload, LimitExceeded, NotEnqueued, UnknownJobType
from turno.jobs.converter import converter
from turno.jobs.handler import JobHandler
from turno.jobs.new_job import FARTHEST, NewJob, queue_of, untimely
from turno.store.api import jobs as stored
from turno.web.admission import Scope, admit_command, admit_inline
from turno.web.api.job_body import JobBody
from turno.web.requests import (
    NOT_GIVEN,
    JsonBody,
    Moment,
    check,
    described,
    field_problems,
    idempotency_key,
    large_body_lock,
    read_json_object,
)
from turno.web.responses import FieldProblem, Kind, Problem, answer, invalid, over_quota
from turno.web.routes import Answer, Call, Routes
from turno.web.services import Inline, WaitQuery, at, job_links, services

if TYPE_CHECKING:
    from turno.web.pages.visit import Visit


log = logging.getLogger(__name__)
job_submission = Routes("job_submission", __name__, tag="jobs")


class SubmissionPart(Protocol):
    """The fields of a frozen dataclass `body`, their checks, and an expression behind the insert of the job.

    A body without these fields reaches no method. A part without further checks, and without fields in forms,
    implements `behind` alone.
    """

    body: ClassVar[type[Any]]

    def problems(self, scope: Scope, wanted: Any) -> list[FieldProblem]:
        """Return the problems of the fields in a body that the types of the fields do not find."""
        del scope, wanted
        return []

    @abstractmethod
    def behind(self, scope: Scope, wanted: Any, *, repeated: Callable[[], bool]) -> Behind | None:
        """Return the expression of a checked body; `repeated` queries whether its Idempotency-Key has a job."""

    def behind_form(self, visit: "Visit") -> Behind | None:
        """Return the expression of the present form."""
        del visit
        return None

    def form(self, visit: "Visit") -> Markup:
        """Return the fields of a form."""
        del visit
        return Markup()


RunAt = Annotated[Moment, described("Not before this moment: at most a year ahead and a day past.")]
RunIn = Annotated[
    float,
    Meta(ge=0, le=FARTHEST.total_seconds()),
    described("Seconds from now before which the job does not start, instead of run_at: at most a year."),
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

    Raises Problem: 422 for an unknown type, 413 and 415 for a body that is not read, 400 with every problem for the
    rest. Times that were valid at the first use of this Idempotency-Key stay valid: a client that lost the first answer
    receives it at any later time.
    """
    handler, current = known_handler(job_type), services()
    with large_body_lock(request):
        body = read_json_object(request)
        wanted, payload, problems = _checked(handler, body, current.submission_parts)
    if wanted is None:
        raise invalid(problems)
    key = idempotency_key(request)
    if wanted.run_in is not None and wanted.run_at is not None:
        problems.append(FieldProblem("run_in", "may not be given together with run_at"))
    now = current.clock()
    due = wanted.run_at if wanted.run_in is None else now + timedelta(seconds=wanted.run_in)
    late = [FieldProblem(*problem) for problem in untimely(due, wanted.expires_at, now)]
    parts = [
        part
        for part in current.submission_parts
        if any(getattr(wanted, field.name) != field.default for field in _fields(part.body))
    ]
    problems += [problem for part in parts for problem in part.problems(call.scope, wanted)]
    try:
        queue_of(handler, wanted.queue)
    except NotEnqueued as error:
        problems.append(FieldProblem("queue", str(error)))
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
    return new, [hook for hook in behind if hook is not None]


@cache
def body_type(parts: tuple[SubmissionPart, ...]) -> type[SubmitBody]:
    """Return the dataclass with the fields of the core and of these parts."""
    bases = (*(part.body for part in parts), SubmitBody)
    return cast("type[SubmitBody]", make_dataclass("SubmitBody", (), bases=bases, frozen=True))


_fields: Callable[[Any], tuple[Field[Any], ...]] = cache(fields)


def new_job(handler: type[JobHandler[Any]], payload: Any, call: Call, **options: Any) -> NewJob:
    """Return a job of the request's user and trace; raises Problem 400 if its concurrency key is too long."""
    try:
        return NewJob.of(
            handler,
            payload,
            user_id=call.scope.principal.user,
            correlation_id=call.correlation_id,
            trace_context=request_ctx.request.environ.get("HTTP_TRACEPARENT"),
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


def _checked(
    handler: type[JobHandler[Any]], body: JsonBody, parts: tuple[SubmissionPart, ...]
) -> tuple[SubmitBody | None, Any, list[FieldProblem]]:
    """Return the body, its payload in plain form, and the problems of both."""
    wanted, payload, problems = None, None, []
    try:
        wanted = converter(body_type(parts)).load(body.text)
    except InvalidPayload as error:
        problems = field_problems(error)
    if "payload" in body.value:
        raw = wanted.payload if wanted else msgspec.json.decode(body.text, type=dict[str, msgspec.Raw])["payload"]
        payload, misfits = check(handler, raw)
        problems += misfits
    return wanted, payload, problems


def _used(call: Call, job_type: str, key: str | None) -> bool:
    if key is None:
        return False
    with call.scope.reading() as reader:
        return stored.find_by_key(reader, call.scope.principal.user, job_type, key) is not None


@dataclass(frozen=True, slots=True)
class Accepted:
    """The job is committed and will run."""

    status: Literal["accepted"]
    job_id: UUID
    message: str
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class Done:
    """The work was done within the request."""

    status: Literal["completed"]
    result: dict[str, Any] | None


LOCATION = {"Location": "The address of the job."}
REPLAYED = {"Idempotency-Replayed": "`true` if this is the answer to an earlier request of the same kind."}


@job_submission.operation(
    "POST /api/jobs/<job_type>",
    answers={
        202: Answer(
            about="Accepted, now or by the first request with this key.", body=Accepted, headers=LOCATION | REPLAYED
        ),
        200: Answer(
            about="Ended within `wait`; or done within the request, because background jobs are switched off: the "
            "answer then contains only `status` and `result`.",
            body=JobBody | Done,
            headers=LOCATION | REPLAYED,
        ),
    },
    request_headers=("Idempotency-Key", "traceparent"),
    problems=(
        Kind.INVALID_REQUEST,
        Kind.TOO_LARGE,
        Kind.MEDIA_TYPE,
        Kind.UNKNOWN_TYPE,
        Kind.KEY_REUSED,
        Kind.REFUSED,
        Kind.QUOTA,
    ),
    counts=False,
)
def submit(call: Call, query: WaitQuery, job_type: str) -> Response:
    """Submit a job.

    The job is committed before the answer. Send an `Idempotency-Key` and repeat the request freely: it makes only one
    job. With `wait` the answer comes when the job has ended, if it does in that time.
    """
    try:
        new, behind = read_submission(request_ctx.request, call, job_type)
    except Exception:
        admit_command(call.scope)
        raise
    current = services()
    if current.inline is not None:
        admit_command(call.scope)
        if new.run_at is not None or new.run_in is not None:
            raise invalid([FieldProblem("run_at", "cannot be kept while background jobs are switched off")])
        return answer(Done("completed", run_now(current.inline, call.scope, new)))
    counted = not call.scope.principal.operator
    try:
        verdict = submitted(current.dispatcher.submit(call.scope.tenant, new, behind, counted=counted))
    except LimitExceeded:  # the refused statement counted nothing
        admit_command(call.scope)
        raise
    assert verdict.job_id is not None  # noqa: S101 - accepted and replayed name a job
    about = {"tenant": call.scope.tenant.slug, "job_id": str(verdict.job_id), "type": new.type}
    log.info("job %s", verdict.word, extra=about | {"correlation_id": call.correlation_id})
    response = accepted(verdict)
    return current.live.await_end(call, query, verdict.job_id, response) if query.wait else response


def submitted(verdict: Verdict) -> Verdict:
    """Return the verdict of a submission that names a job; raises Problem 429 or 422 for any other verdict."""
    if verdict.word == "quota":
        raise over_quota("You have")
    if verdict.word == "conflict":
        text = "This Idempotency-Key was used with another body; use a new key for a new request."
        raise Problem(Kind.KEY_REUSED, text)
    return verdict


def accepted(verdict: Verdict) -> Response:
    """Return the 202 with the address of the job."""
    job_id = verdict.job_id
    assert job_id is not None  # noqa: S101 - accepted and replayed name a job
    links = job_links(job_id, at(""))
    headers = {"Location": links["self"]}
    if verdict.word == "replayed":
        headers["Idempotency-Replayed"] = "true"
    return answer(Accepted("accepted", job_id, "The job was accepted; follow it at links.self.", links), 202, headers)


def run_now(inline: Inline, scope: Scope, new: NewJob) -> dict[str, Any] | None:
    """Do the work within the request and return its result; raises RateLimited, or Problem if it cannot be done."""
    handler = services().registry.handler(new.type)
    admit_inline(scope.tenant, scope.principal.user, new.type)
    try:
        return inline(scope.tenant, handler, new.payload, scope.principal.user)
    except InvalidPayload as error:
        raise invalid([FieldProblem(f"payload.{p['field']}", p["problem"]) for p in error.problems]) from error
    except Exception as error:
        if not handler.is_for_users(error):
            raise  # a fault: logged, and answered by its id
        raise Problem(Kind.REFUSED, str(error) or "The work was refused.") from error
