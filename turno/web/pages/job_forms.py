"""Submit a job from a form of a page: once, however often the form is sent."""

import logging
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid4

from flask import request

from turno.jobs.new_job import IDEMPOTENCY_KEY, NewJob
from turno.store.api import jobs
from turno.web.api.submit import run_now
from turno.web.pages.visit import Visit, reading
from turno.web.requests import check
from turno.web.responses import Problem, invalid
from turno.web.services import services

log = logging.getLogger(__name__)


class Submitted(NamedTuple):
    """The outcome of a form's job; the word is `notice` of the next page, without a notice for `accepted`."""

    word: Literal["accepted", "replayed", "quota", "none", "done", "refused"]
    job_id: UUID | None = None


def form_key() -> str:
    """Return the key of the present form; raises Problem 400 if a page of ours did not draw it."""
    key = request.form.get("key", "")
    if not re.fullmatch(IDEMPOTENCY_KEY, key):
        raise invalid([])
    return key


def submitted_before(visit: Visit, job_type: str) -> UUID | None:
    """Return the job that this form made when it was sent before."""
    with reading(visit) as reader:
        return jobs.find_by_key(reader, visit.user, job_type, form_key())


def submit(visit: Visit, job_type: str, payload: Mapping[str, Any]) -> Submitted:
    """Make a job of the present form; the word is `none` where its handler does not take this payload.

    Where background jobs are switched off, the work is done within the request.
    """
    handler = services().registry.handler(job_type)
    checked, problems = check(handler, dict(payload))
    if problems:
        return Submitted("none")
    new = NewJob.of(handler, checked, user_id=visit.user, idempotency_key=form_key(), correlation_id=str(uuid4()))
    behind = [made for part in services().submission_parts if (made := part.behind_form(visit))]
    if (inline := services().inline) is not None:
        try:
            run_now(inline, visit.scope, new)
        except Problem:
            return Submitted("refused")
        return Submitted("done")
    verdict = services().dispatcher.submit(visit.scope.tenant, new, behind)
    log.info("job %s", verdict.word, extra={"tenant": visit.branch, "job_id": str(verdict.job_id), "type": job_type})
    match verdict.word:
        case "accepted" | "quota" as word:
            return Submitted(word, verdict.job_id)
        case _:
            # A conflict, too: the content of the form changes while its first job works.
            return Submitted("replayed", verdict.job_id)
