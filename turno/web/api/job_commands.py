"""POST /api/jobs/<id>/cancel and /retry."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from flask import Response

from turno.jobs.job import Status
from turno.web.api.job_body import job_links
from turno.web.api.job_id import read_id
from turno.web.api.jobs import find_job
from turno.web.api.submit import LOCATION, REPLAYED, Accepted, accepted
from turno.web.http.json_answers import answer
from turno.web.http.problems import Kind, Problem, no_such_job
from turno.web.rate_limit_problems import over_quota
from turno.web.routes import Answer, Call, Operation, Routes
from turno.web.services import services

job_commands = Routes("job_commands", __name__, tag="jobs")


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`cancelled`: it will not run. `requested`: it runs, and stops at its next look."""

    status: Literal["cancelled", "requested"]
    job_id: UUID
    message: str
    links: dict[str, str]


CANCEL = Operation(
    method="POST",
    rule="/api/jobs/<job_id>/cancel",
    summary="Cancel a job",
    about="Safe to repeat. A running job stops at its next checkpoint, chunk or look; what it committed stays.",
    answers={
        200: Answer(about="It is cancelled.", body=Cancelled),
        202: Answer(about="It runs, and was asked to stop.", body=Cancelled),
    },
    problems=(Kind.NOT_FOUND, Kind.ENDED),
)

RETRY = Operation(
    method="POST",
    rule="/api/jobs/<job_id>/retry",
    summary="Run an ended job again",
    about="Makes a new job that continues a failed or cancelled one, or does the failed items of a completed one. "
    "What was done is not done again. Asked twice, it answers with the same new job.",
    answers={202: Answer(about="The new job.", body=Accepted, headers=LOCATION | REPLAYED)},
    problems=(Kind.NOT_FOUND, Kind.ENDED, Kind.QUOTA),
)


@job_commands.guarded(CANCEL)
def cancel(call: Call, job_id: str) -> Response:
    """Cancel a job."""
    asked = read_id(job_id, no_such_job())
    by = "an operator" if call.scope.principal.operator else "its user"
    verdict = services().dispatcher.cancel(
        call.scope.tenant, asked, user_id=call.scope.visible_user, reason=f"cancelled by {by}"
    )
    match verdict.word:
        case "unknown":
            raise no_such_job()
        case "requested":
            return _cancelled("requested", asked)
        case "ended" if find_job(call, job_id)["status"] != Status.CANCELLED:
            raise Problem(Kind.ENDED, "The job has ended already; there is nothing left to cancel.")
    return _cancelled("cancelled", asked)


@job_commands.guarded(RETRY)
def retry(call: Call, job_id: str) -> Response:
    """Make a new job that continues an ended one."""
    verdict = services().dispatcher.retry(
        call.scope.tenant,
        read_id(job_id, no_such_job()),
        user_id=call.scope.visible_user,
        correlation_id=call.correlation_id,
    )
    match verdict.word:
        case "unknown":
            raise no_such_job()
        case "not_retryable":
            raise Problem(
                Kind.ENDED, "Only a failed or cancelled job, or a completed one with failed items, can run again."
            )
        case "quota":
            raise over_quota("The job's user has" if call.scope.principal.operator else "You have")
    return accepted(verdict)


def _cancelled(word: Literal["cancelled", "requested"], job_id: UUID) -> Response:
    if word == "cancelled":
        return answer(Cancelled(word, job_id, "The job is cancelled.", job_links(job_id)))
    message = "The job was asked to stop; follow it at links.self."
    return answer(Cancelled(word, job_id, message, job_links(job_id)), 202)
