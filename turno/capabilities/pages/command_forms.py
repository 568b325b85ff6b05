"""The forms that cancel and retry a job; each answers with a redirect, so that reloading repeats nothing."""

from uuid import UUID, uuid4

from flask import Response, request

from turno.web.api.job_commands import cancel_job, retry_job
from turno.web.pages.drawing import go
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import Visit

command_forms = Pages("command_forms", __name__)


@command_forms.form("/jobs/<job_id>/cancel")
def cancel(visit: Visit, job_id: str) -> Response:
    """Cancel a job, or ask it to stop."""
    verdict = cancel_job(visit.scope, job_id)
    return go(_back(visit, job_id, notice="ended" if verdict.word == "ended" else None))


@command_forms.form("/jobs/<job_id>/retry")
def retry(visit: Visit, job_id: str) -> Response:
    """Make a new job that does the rest of the ended job."""
    verdict = retry_job(visit.scope, job_id, correlation_id=str(uuid4()))
    if verdict.word in ("not_retryable", "quota"):
        return go(_back(visit, job_id, notice=verdict.word))
    return go(_back(visit, verdict.job_id or job_id))


def _back(visit: Visit, job: UUID | str, *, notice: str | None = None) -> str:
    """Return the address of the page that the form was on, now about this job."""
    if request.form.get("on") == "job":
        return visit.to(f"/jobs/{job}", notice=notice)
    return visit.to("/", job=job, notice=notice)
