"""/jobs/<id>: one job with its items and its history, and the forms that cancel and retry it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import UUID, uuid4

from flask import Response, request

from turno.capabilities.pages.job_view import JobView, job_views
from turno.jobs.job import Status
from turno.store.api import jobs as stored
from turno.web.api.job_commands import cancel_job, retry_job
from turno.web.pages.drawing import draw, go, written
from turno.web.pages.localizer import of_error, of_event, of_job
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.requests import NOT_GIVEN, Text, read_id
from turno.web.responses import no_such_job, page_of
from turno.web.services import services

job_page = Pages("job_page", __name__)

ItemState = Literal["failed", "done"]
# The message for the reason of `job_lacks`; every other reason is a missing worker.
WAITS = {
    "paused tenant": "paused tenant",
    "paused type": "paused type",
    "key": "waits for its turn",
    "order": "waits for its turn",
    "dead letter": "waits for a failed job",
}
ITEMS_SHOWN = 100
PARTS_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery(PageQuery):
    """Which of the job's items are listed, and after which key."""

    items: ItemState = NOT_GIVEN
    after: Text = ""


@job_page.page("/jobs/<job_id>")
def show(visit: Visit, job_id: str, query: JobQuery) -> Response:
    """Show one job."""
    wanted = read_id(job_id, no_such_job())
    with reading(visit) as reader:
        row = stored.find(reader, wanted, visit.scope.visible_user)
        if row is None:
            raise no_such_job()
        detail = job_detail(reader, row, visit, state=query.items, after=query.after, limit=ITEMS_SHOWN)
        sections = [section(reader, visit, wanted) for section in services().job_sections]
        parts = stored.search(reader, stored.JobFilter(part_of=wanted, limit=PARTS_SHOWN)) if row["parts"] else []
        part_views = job_views(reader, parts[::-1], visit)
        events = stored.events(reader, wanted)
    reason_text = of_job if visit.scope.principal.operator else of_event
    history = [
        _changed(event, detail.job, visit) | {"reason": reason_text(event["reason"], visit.localizer)}
        for event in events
    ]
    return draw(
        "turno/job.html",
        visit=visit,
        query=query,
        detail=detail,
        sections=sections,
        parts=part_views,
        events=history,
        written=written,
    )


def _changed(event: dict[str, Any], job: JobView, visit: Visit) -> dict[str, Any]:
    """Return a change of the job's status with its word: the word of its end is the job's label."""
    if Status(event["new_status"]).ended:
        return event | {"label": job.body.label, "state": job.state}
    label = "waiting" if event["new_status"] == Status.PENDING else event["new_status"]
    return event | {"label": label, "state": visit.localizer.say(label)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """One job with its story in the reader's language and a page of its items."""

    job: JobView
    story: Mapping[str, str]
    shown: str  # the state of the items that are listed
    items: Sequence[Mapping[str, Any]]
    after: str | None  # where the next page of items begins


def job_detail(
    reader: stored.Reader, row: stored.Row, visit: Visit, *, state: str | None = None, after: str = "", limit: int
) -> JobDetail:
    """Return the details of a stored job; without `state` with its failed items, or without failures its done items."""
    [job] = job_views(reader, [row], visit)
    shown = state or ("failed" if job.body.progress.failed else "done")
    items = stored.items(reader, job.body.job_id, shown, after, limit + 1)
    page, after = page_of(items, limit, partial(_item, visit=visit), "key")
    return JobDetail(job=job, story=_story(job, row, visit), shown=shown, items=page, after=after)


def _item(item: Mapping[str, Any], visit: Visit) -> dict[str, Any]:
    operator = visit.scope.principal.operator
    item = visit.scope.seen(item)
    trace = (item["error"] or {}).get("traceback") if operator else None
    reason = of_error(item["error"], visit.localizer, operator=operator, key=item["key"])
    return {"key": item["key"], "ref": item["ref"], "reason": reason, "traceback": trace}


def _story(job: JobView, row: stored.Row, visit: Visit) -> dict[str, str]:
    """Return the event, the result and the remedy of a job that failed in part or as a whole."""
    body = job.body

    def say(phrase: str, n: int | None = None) -> str:
        return visit.localizer.say(visit.localizer.of(body.type, phrase), n=n)

    error = of_error(visit.scope.seen(row)["error"], visit.localizer, operator=visit.scope.principal.operator)
    reason = of_job(row["reason"], visit.localizer)
    do = say("do rest")
    if body.status is Status.COMPLETED and body.progress.failed:
        happened, do = say("happened some", n=body.progress.failed), say("do mend") if job.to_retry else ""
    elif body.status is Status.FAILED:
        happened, do = job.reason, "" if job.lasting else do
    elif body.status is Status.CANCELLED:
        happened = reason or say("happened cancel")
    elif row["lacks"] == "parts":
        return {}
    elif body.waiting_for:
        return {"what happened": say(WAITS.get(row["lacks"], "waits for a worker"))}
    elif body.label in ("retrying", "needs review"):
        return {"what happened": error or reason} if error or reason else {}
    else:
        return {}
    done = body.progress.done
    story = {"what happened": happened}
    if body.progress.total or visit.localizer.known(f"kept nothing {body.type}"):
        story |= {"what was kept": say("kept", n=done) if done else say("kept nothing")}
    if job.lasting:
        do = f"{do} {say('do lasting')}".strip()
    return story | ({"what to do": do} if job.retryable or job.lasting else {})


@job_page.form("/jobs/<job_id>/cancel")
def cancel(visit: Visit, job_id: str) -> Response:
    """Cancel a job, or ask it to stop."""
    verdict = cancel_job(visit.scope, job_id)
    return go(_back(visit, job_id, notice="ended" if verdict.word == "ended" else None))


@job_page.form("/jobs/<job_id>/retry")
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
