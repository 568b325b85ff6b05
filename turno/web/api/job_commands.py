"""POST /api/jobs/<id>/cancel, /retry and /rerun."""

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from flask import Response, request

from turno.dispatch.dispatcher import Verdict
from turno.jobs.job import Priority, Status
from turno.store.api import jobs as stored
from turno.web.admission import Scope
from turno.web.api.jobs import find_job
from turno.web.api.submit import LOCATION, REPLAYED, Accepted, accepted, known_handler, new_job, submitted
from turno.web.requests import NOT_GIVEN, check, idempotency_key, read_body, read_id
from turno.web.responses import FieldProblem, Kind, Problem, answer, invalid, no_such_job, over_quota
from turno.web.routes import Answer, Call, Routes
from turno.web.services import at, job_links, services

job_commands = Routes("job_commands", __name__, tag="jobs")


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`cancelled`: it will not run. `requested`: it runs, and stops at its next look."""

    status: Literal["cancelled", "requested"]
    job_id: UUID
    message: str
    links: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunBody:
    """The payload of the new job; without one, that of the ended job.

    With `skip_finished` the new job has the user and the payload of the ended one, and skips the items that are done;
    a job has one such successor, so a repeated request returns the same new job.
    """

    payload: Any = NOT_GIVEN
    skip_finished: bool = False


@job_commands.operation(
    "POST /api/jobs/<job_id>/cancel",
    answers={
        200: Answer(about="It is cancelled.", body=Cancelled),
        202: Answer(about="It runs; its stop is requested.", body=Cancelled),
    },
    problems=(Kind.NOT_FOUND, Kind.ENDED),
)
def cancel(call: Call, job_id: str) -> Response:
    """Cancel a job.

    Safe to repeat. A running job stops at its next checkpoint, chunk or poll; its committed work stays.
    """
    verdict, links = cancel_job(call.scope, job_id), job_links(UUID(job_id), at(""))
    if verdict.word == "requested":
        text = "The job's stop is requested; follow it at links.self."
        return answer(Cancelled("requested", UUID(job_id), text, links), 202)
    if verdict.word == "ended" and find_job(call, job_id)["status"] != Status.CANCELLED:
        raise Problem(Kind.ENDED, "The job has ended already; there is nothing left to cancel.")
    return answer(Cancelled("cancelled", UUID(job_id), "The job is cancelled.", links))


@job_commands.operation(
    "POST /api/jobs/<job_id>/retry",
    answers={202: Answer(about="The new job.", body=Accepted, headers=LOCATION | REPLAYED)},
    problems=(Kind.NOT_FOUND, Kind.ENDED, Kind.QUOTA),
)
def retry(call: Call, job_id: str) -> Response:
    """Run an ended job again.

    Makes a new job that continues a failed or cancelled one, or does the failed items of a completed one. Completed
    work is not repeated. A repeated request returns the same new job.
    """
    return _continued(call, retry_job(call.scope, job_id, correlation_id=call.correlation_id))


def _continued(call: Call, verdict: Verdict) -> Response:
    if verdict.word == "not_retryable":
        text = (
            "Only a failed or cancelled job, or a completed one with failed items, can run again, and only while"
            " no other job of its unique key is open."
        )
        raise Problem(Kind.ENDED, text)
    if verdict.word == "quota":
        raise over_quota("The job's user has" if call.scope.principal.operator else "You have")
    return accepted(verdict)


@job_commands.operation(
    "POST /api/jobs/<job_id>/rerun",
    body=RerunBody,
    answers={202: Answer(about="The new job.", body=Accepted, headers=LOCATION | REPLAYED)},
    request_headers=("Idempotency-Key", "traceparent"),
    problems=(Kind.NOT_FOUND, Kind.ENDED, Kind.UNKNOWN_TYPE, Kind.KEY_REUSED, Kind.QUOTA),
)
def rerun(call: Call, job_id: str) -> Response:
    """Submit an ended job again.

    Makes a new job of yours with the same or an edited payload; its `parent_id` is the ended job. It does all of
    the work again; `retry` does the unfinished part. Send an `Idempotency-Key` to repeat the request safely.
    """
    row, body = find_job(call, job_id), read_body(request, RerunBody)
    if body.skip_finished:
        if body.payload is not None:
            raise invalid([FieldProblem("payload", "may not be given together with skip_finished")])
        return _continued(call, retry_job(call.scope, job_id, correlation_id=call.correlation_id, completed=True))
    return accepted(rerun_job(call, row, body.payload, idempotency_key(request)))


def cancel_job(scope: Scope, job_id: str) -> Verdict:
    """Cancel a visible job, or request its stop: cancelled, requested or ended; raises 404 for any other job."""
    verdict = services().dispatcher.cancel(
        scope.tenant,
        read_id(job_id, no_such_job()),
        user_id=scope.visible_user,
        reason="cancelled by an operator" if scope.operator else "cancelled by its user",
        by=scope.operator,
    )
    return _known(verdict)


def retry_job(scope: Scope, job_id: str, *, correlation_id: str, completed: bool = False) -> Verdict:
    """Continue a visible job by a new one: accepted, replayed, not_retryable or quota; raises as `cancel_job` does."""
    verdict = services().dispatcher.retry(
        scope.tenant,
        read_id(job_id, no_such_job()),
        user_id=scope.visible_user,
        correlation_id=correlation_id,
        by=scope.operator,
        completed=completed,
    )
    return _known(verdict)


def rerun_job(call: Call, row: stored.Row, payload: Any, key: str | None) -> Verdict:
    """Submit an ended job again, with its own payload in place of None: accepted or replayed; raises Problem."""
    if row["finished_at"] is None:
        raise Problem(Kind.ENDED, "The job has not ended; only an ended job can be submitted again.")
    handler = known_handler(row["type"])
    if payload is None:
        with call.scope.reading() as reader:
            payload = stored.payload(reader, row["id"])
    checked, problems = check(handler, payload)
    if problems:
        raise invalid(problems)
    new = new_job(handler, checked, call, priority=Priority(row["priority"]), idempotency_key=key, parent_id=row["id"])
    return submitted(services().dispatcher.submit(call.scope.tenant, new))


def _known(verdict: Verdict) -> Verdict:
    if verdict.word == "unknown":
        raise no_such_job()
    return verdict
