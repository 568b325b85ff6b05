"""POST /api/jobs/<type>: accept a job, or run its service at once where background jobs are switched off."""

import logging
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from flask import Response, request

from turno.dispatch.dispatcher import Verdict
from turno.errors import InvalidPayload
from turno.jobs.new_job import NewJob
from turno.web.addresses import at
from turno.web.api.job_body import JobBody, job_links
from turno.web.api.submit_body import read_submission
from turno.web.auth.tenant_scope import Scope
from turno.web.http.json_answers import answer
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.live import WaitQuery
from turno.web.rate_limits import admit_inline, over_quota
from turno.web.routes import Answer, Call, Routes
from turno.web.services import Inline, services

log = logging.getLogger(__name__)
job_submission = Routes("job_submission", __name__, tag="jobs")


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
            about="Ended within the time that `wait` gave it; or done within the request, because background jobs are "
            "switched off: then only `status` and `result` are told.",
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
)
def submit(call: Call, query: WaitQuery, job_type: str) -> Response:
    """Submit a job.

    The job is committed before the answer. Send an `Idempotency-Key` and repeat the request freely: it stands for
    one job. With `wait` the answer comes when the job has ended, if it does in that time.
    """
    new, behind = read_submission(request, call, job_type)
    inline = services().inline
    if inline is not None:
        if new.run_at is not None or new.run_in is not None:
            raise invalid([FieldProblem("run_at", "cannot be kept while background jobs are switched off")])
        return answer(Done("completed", run_now(inline, call.scope, new)))
    verdict = submitted(services().dispatcher.submit(call.scope.tenant, new, behind))
    log.info("job %s", verdict.word, extra=_named(call, new, verdict))
    assert verdict.job_id is not None  # noqa: S101 - accepted and replayed name a job
    return services().live.await_end(call, query, verdict.job_id, accepted(verdict))


def submitted(verdict: Verdict) -> Verdict:
    """Return the verdict of a submission that names a job; raises Problem 429 or 422 for the others."""
    match verdict.word:
        case "quota":
            raise over_quota("You have")
        case "conflict":
            raise Problem(
                Kind.KEY_REUSED,
                "This Idempotency-Key was used with another body; use a new key for a new request.",
            )
    return verdict


def accepted(verdict: Verdict) -> Response:
    """Return the 202 that tells where the job is."""
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


def _named(call: Call, new: NewJob, verdict: Verdict) -> dict[str, Any]:
    return {
        "tenant": call.scope.tenant.slug,
        "job_id": str(verdict.job_id),
        "type": new.type,
        "correlation_id": call.correlation_id,
    }
