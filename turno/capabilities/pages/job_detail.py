"""Details of one job beyond its row: its story in the reader's language, and its items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from turno.capabilities.pages.job_view import JobView, job_views
from turno.jobs.job import Status
from turno.store.api import jobs as stored
from turno.web.api.job_body import CRASH
from turno.web.pages.localizer import of_error, of_job
from turno.web.pages.visit import Visit
from turno.web.responses import page_of

ItemState = Literal["failed", "done"]
# The message for the reason of `job_lacks`; every other reason is a missing worker.
WAITS = {
    "paused tenant": "paused tenant",
    "paused type": "paused type",
    "key": "waits for its turn",
    "order": "waits for its turn",
    "dead letter": "waits for a failed job",
}


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
    if body.status is Status.COMPLETED and body.progress.failed:
        happened, do = say("happened some", n=body.progress.failed), say("do mend")
    elif body.status is Status.FAILED:
        crashed = body.error is not None and body.error.class_ == CRASH
        happened, do = f"{say('happened crash') if crashed else reason} {error}", say("do rest")
    elif body.status is Status.CANCELLED:
        happened, do = reason or say("happened cancel"), say("do rest")
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
    return story | ({"what to do": do} if job.retryable else {})
