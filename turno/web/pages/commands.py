"""The forms that cancel and retry a job; each answers with a redirect, so that reloading repeats nothing."""

import logging
from uuid import UUID, uuid4

from flask import Response, request

from turno.web.api.job_id import read_id
from turno.web.http.problems import no_such_job
from turno.web.pages.drawing import go
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import Visit
from turno.web.services import services

log = logging.getLogger(__name__)
commands = Pages("commands", __name__)


@commands.form("/jobs/<job_id>/cancel")
def cancel(visit: Visit, job_id: str) -> Response:
    """Cancel a job, or ask it to stop."""
    asked = read_id(job_id, no_such_job())
    by = "an operator" if visit.scope.principal.operator else "its user"
    verdict = services().dispatcher.cancel(
        visit.scope.tenant, asked, user_id=visit.scope.visible_user, reason=f"cancelled by {by}"
    )
    if verdict.word == "unknown":
        raise no_such_job()
    return go(_back(visit, asked, notice="ended" if verdict.word == "ended" else None))


@commands.form("/jobs/<job_id>/retry")
def retry(visit: Visit, job_id: str) -> Response:
    """Make a new job that does what the ended one left undone."""
    asked = read_id(job_id, no_such_job())
    verdict = services().dispatcher.retry(
        visit.scope.tenant, asked, user_id=visit.scope.visible_user, correlation_id=str(uuid4())
    )
    match verdict.word:
        case "unknown":
            raise no_such_job()
        case "not_retryable" | "quota" as notice:
            return go(_back(visit, asked, notice=notice))
        case _:
            return go(_back(visit, verdict.job_id or asked))


def _back(visit: Visit, job: UUID, *, notice: str | None = None) -> str:
    """Return the address of the page that the form was on, now about this job."""
    if request.form.get("on") == "job":
        return visit.to(f"/jobs/{job}", notice=notice)
    return visit.to("/", job=job, notice=notice)
