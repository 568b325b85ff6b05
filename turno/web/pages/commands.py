"""The forms of a job: start a batch, cancel, retry; each leads back to a page, so that reloading repeats nothing."""

import logging
import re
from uuid import UUID, uuid4

from flask import Response, request

from turno.dispatch.dispatcher import Submission
from turno.store import orders
from turno.store.api import jobs
from turno.tenancy.identity.session import as_api
from turno.web.api.job_id import read_id
from turno.web.api.submit import run_now
from turno.web.http.problems import Problem, invalid, no_such_job
from turno.web.http.query import LONGEST_TEXT, whole
from turno.web.http.request_headers import IDEMPOTENCY_KEY
from turno.web.pages.drawing import go
from turno.web.pages.home import LARGEST_ID, LARGEST_POINT
from turno.web.pages.job_view import BATCH
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import Visit
from turno.web.services import Inline, services

log = logging.getLogger(__name__)
commands = Pages("commands", __name__)

LARGEST_BATCH = 10_000  # orders, as the handler takes them; what is left is listed for the next batch


@commands.form("/batches")
def start(visit: Visit) -> Response:
    """Invoice the chosen orders, or all; the form's key makes one job of it however often it is sent."""
    key = request.form.get("key", "")
    if not re.fullmatch(IDEMPOTENCY_KEY, key):
        raise invalid([])
    chosen = _all_found(visit) if request.form.get("which") == "all" else _chosen()
    point = _point_of_sale()
    # Asked after the orders were read: an earlier press may have invoiced the last of them.
    if earlier := _started_before(visit, key):
        return go(visit.to("/", job=earlier, notice="replayed"))
    handler = services().registry.load(BATCH)
    payload, problems = services().payloads.check(handler, {"order_ids": chosen[:LARGEST_BATCH]} | point)
    if not chosen or problems:
        return go(visit.to("/", q=request.form.get("q"), notice="none"))
    wanted = Submission(
        handler=handler,
        payload=payload,
        user_id=visit.user,
        idempotency_key=key,
        correlation_id=str(uuid4()),
    )
    inline = services().inline
    if inline is not None:
        return _now(visit, inline, wanted)
    verdict = services().dispatcher.submit(visit.scope.tenant, wanted)
    log.info("job %s", verdict.word, extra={"tenant": visit.branch, "job_id": str(verdict.job_id), "type": BATCH})
    match verdict.word:
        case "accepted":
            return go(visit.to("/", job=verdict.job_id, notice="cut" if len(chosen) > LARGEST_BATCH else None))
        case "quota":
            return go(visit.to("/", notice="quota"))
        case _:
            # A conflict too: what was to be invoiced changes as the first press does its work.
            return go(visit.to("/", job=verdict.job_id, notice="replayed"))


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
    """Make a new job of what an ended one left."""
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


def _started_before(visit: Visit, key: str) -> UUID | None:
    with services().connection() as connection, as_api(connection, visit.scope.tenant) as reader:
        return jobs.find_by_key(reader, visit.user, BATCH, key)


def _chosen() -> list[int]:
    read = whole(1, LARGEST_ID)
    try:
        return sorted({read(text) for text in request.form.getlist("order")})
    except ValueError:
        raise invalid([]) from None


def _point_of_sale() -> dict[str, int]:
    """Return what the form says of who numbers the invoices; without a word, the job's own default counts."""
    text = request.form.get("point")
    try:
        return {} if text is None else {"point_of_sale": whole(1, LARGEST_POINT)(text)}
    except ValueError:
        raise invalid([]) from None


def _all_found(visit: Visit) -> list[int]:
    """Return the orders that the page counted: none that came after it was drawn."""
    try:
        last = whole(0, LARGEST_ID)(request.form.get("last", ""))
    except ValueError:
        raise invalid([]) from None
    text = request.form.get("q", "").replace("\0", "")[:LONGEST_TEXT]
    with services().connection() as connection, as_api(connection, visit.scope.tenant) as reader:
        return orders.billable_ids(reader, text, last=last)


def _now(visit: Visit, inline: Inline, wanted: Submission) -> Response:
    try:
        run_now(inline, visit.scope.tenant, wanted)
    except Problem:
        return go(visit.to("/", notice="refused"))
    return go(visit.to("/", notice="done"))
