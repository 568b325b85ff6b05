"""/admin, /admin/queues, /admin/workers and /api/admin/workers: troubles, failures by cause, queues and workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlencode
from uuid import UUID

from flask import Response, request

from turno.capabilities.admin.settings import Backend
from turno.jobs.label import FAILURES
from turno.store.operator import counts, job_search
from turno.store.operator.counts import Operator, counted_until
from turno.store.operator.run_time_settings import ask_worker, list_workers
from turno.store.operator.troubles import Trouble, troubles
from turno.web.pages.drawing import draw, go
from turno.web.pages.localizer import Localizer
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import Changes, read_id, searchable
from turno.web.responses import Kind, Problem, from_row, invalid
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator, services

admin_workers = Routes("admin_workers", __name__, tag="administration")
overview = OperatorPages("operator_overview", __name__, template_folder="templates")

SHOWN = 8  # rows of each table; a page of each table has all rows
CAUSES_SHOWN = 3
TROUBLES_SHOWN = 20
QUEUES_SHOWN = 200
DAY = timedelta(days=1)

Request = Literal["quiet", "stop"]
REQUESTS = {"quiet": "quiet", "stop": "stop", "resume": None}


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that a worker has claimed."""

    job_id: UUID
    tenant: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBody:
    """One worker; `silent` is the age of its heartbeat in seconds, `queues` null means all."""

    worker_id: UUID
    host: str
    pid: int
    backend: Backend
    queues: list[str] | None
    types: list[str]
    started_at: datetime
    silent: float
    request: Request | None
    running: list[RunningJob]


@dataclass(frozen=True, slots=True)
class WorkerList:
    """The workers that were not declared dead, the most silent first."""

    workers: list[WorkerBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRequest:
    """`quiet`: the worker claims nothing more. `stop`: it ends as by SIGTERM. null: it claims again."""

    request: Request | None = None


@admin_workers.operation("GET /api/admin/workers", everywhere=True)
def workers(call: OperatorCall) -> WorkerList:
    """List workers."""
    del call
    with as_operator() as operator:
        rows = list_workers(operator)
    bodies = [row | {"worker_id": row["id"], "running": [RunningJob(**job) for job in row["running"]]} for row in rows]
    return WorkerList([from_row(WorkerBody, row) for row in bodies])


@admin_workers.operation("PATCH /api/admin/workers/<worker_id>", everywhere=True, problems=(Kind.NOT_FOUND,))
def ask(call: OperatorCall, body: Changes[WorkerRequest], worker_id: str) -> WorkerList:
    """Ask a worker to be quiet or to stop.

    It receives the request with its next heartbeat, and finishes its jobs. A supervisor of the host may start a stopped
    worker again.
    """
    gone = Problem(Kind.NOT_FOUND, "There is no such worker any more.")
    worker = read_id(worker_id, gone)
    with as_operator() as operator:
        if not ask_worker(operator, worker, body["request"], by=call.principal.user):
            raise gone
    return workers(call)


@overview.page("/admin/workers")
def listed(visit: OperatorVisit) -> Response:
    """List the workers of every host."""
    with as_operator() as operator:
        shown = listed_workers(operator, visit)
    asks = visit.principal.may_change and visit.principal.everywhere
    notice = request.args.get("notice")
    return draw("turno/admin/workers.html", visit=visit, workers=shown, asks=asks, notice=notice)


@overview.form("/admin/workers/<worker_id>", everywhere=True)
def request_by_form(visit: OperatorVisit, worker_id: str) -> Response:
    """Ask a worker to be quiet, to stop, or to claim again."""
    wanted = request.form.get("request", "")
    if wanted not in REQUESTS:
        raise invalid([])
    worker = read_id(worker_id, Problem(Kind.NOT_FOUND, "There is no such worker."))
    with as_operator() as operator:
        there = ask_worker(operator, worker, REQUESTS[wanted], by=visit.principal.user)
    return go(visit.to("/workers", notice="asked" if there else "gone"))


def listed_workers(operator: Operator, visit: OperatorVisit) -> list[dict[str, Any]]:
    """Return each worker with its jobs of the tenants that the visitor sees; a silent worker is lost."""
    limit = services().settings.dead_after_seconds
    return [worker | {"lost": worker["silent"] > limit} for worker in list_workers(operator, visit.companies)]


@overview.page("/admin")
def index(visit: OperatorVisit) -> Response:
    """Show the present troubles and the state of the installation."""
    with as_operator() as operator:
        raised = troubles(operator, timedelta(seconds=services().settings.dead_after_seconds), visit.companies)
        counted_at = counted_until(operator)
        queues = counts.queues(counts.lanes(operator, visit.companies))
        ended = counts.ended_lately(operator, visit.companies)
        tenants = counts.worst_tenants(operator, visit.companies, SHOWN)
        workers = listed_workers(operator, visit)
        failed = job_search.JobsWanted(
            companies=visit.companies, outcomes=FAILURES, since=services().clock() - DAY, waiting=True
        )
        failures = job_search.group_jobs(operator, failed, "error", limit=CAUSES_SHOWN)
        sections = [section(operator, visit) for section in services().overview_sections]
    return draw(
        "turno/admin/overview.html",
        visit=visit,
        troubles=[_entry(trouble, visit) for trouble in raised[:TROUBLES_SHOWN]],
        wrong=len(raised),
        counts=_counts(queues, ended),
        counted_at=counted_at,
        queues=queues[:SHOWN],
        tenants=tenants,
        workers=workers[:SHOWN],
        failures=failures,
        sections=sections,
        more={"queues": len(queues) - SHOWN, "workers": len(workers) - SHOWN},
    )


def _counts(queues: Sequence[counts.QueueCount], ended: Mapping[str, int]) -> dict[str, int]:
    """Return the number of open jobs in each state, and of jobs that ended within the last hour."""
    return {
        "waiting": sum(queue.waiting for queue in queues),
        "running": sum(queue.running for queue in queues),
        "scheduled": sum(queue.scheduled for queue in queues),
        "needs review": sum(queue.review for queue in queues),
        "done": ended["completed"],
        "done, some failed": ended["completed_with_failures"],
        "failed": ended["failed"] + ended["nothing_done"],
        "cancelled": ended["cancelled"],
        "expired": ended["expired"],
    }


def _entry(trouble: Trouble, visit: OperatorVisit) -> dict[str, Any]:
    """Return a trouble in the reader's language, with the page of its remedy."""
    entry = {"sentence": sentence(trouble, visit.localizer), "address": _leads_to(trouble, visit)}
    return entry | {"since": trouble.since, "command": trouble.command}


def sentence(trouble: Trouble, localizer: Localizer) -> str:
    """Return the trouble in the reader's language; without a message of its kind, the stored sentence."""
    phrase = f"trouble {trouble.kind}"
    values: dict[str, Any] = dict(trouble.values)
    if "error" in values:
        values["error"] = str(values["error"]).rstrip(".")
    n = values.pop("n", None)
    if "tenants" in values:
        values["tenants"] = trouble.tenant or localizer.say("admin tenants count", n=values["tenants"])
    if "ended" in values:
        phrase = phrase if values["ended"] else f"{phrase} unresolved"
        values["ended"] = localizer.number(values["ended"])
    if not localizer.known(phrase):
        return f"{trouble.sentence}."
    text = localizer.say(phrase, n=n, **values)
    return f"{text} {localizer.say('trouble others', n=trouble.others)}" if trouble.others else text


def _leads_to(trouble: Trouble, visit: OperatorVisit) -> str | None:
    """Return the page with the remedy of a trouble."""
    match trouble.kind:
        case "failures" | "failed items":
            about = {name: trouble.values[name] for name in ("type", "error")}
            return visit.to("/failures", tenant=trouble.tenant, since="all", **about)
        case "paused tenant" | "long wait":
            return visit.to("/tenants", q=trouble.tenant)
        case "long run":
            return visit.to("/jobs", type=trouble.values["type"], status="running", since="all")
        case "review" if trouble.tenant:
            return f"{visit.at('/')}?{urlencode({'branch': trouble.tenant, 'show': 'open'})}"
        case _:
            return visit.to(trouble.page)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesQuery:
    """The queue, type and tenant of the counted jobs; a form also sends empty values."""

    queue: str = ""
    type: str = ""
    tenant: str = ""


@overview.page("/admin/queues")
def queues(visit: OperatorVisit, query: QueuesQuery) -> Response:
    """List queues."""
    queue, job_type, tenant = map(searchable, (query.queue, query.type, query.tenant))
    with as_operator() as operator:
        lanes = counts.lanes(operator, visit.companies, queue=queue, job_type=job_type, tenant=tenant)
    return draw(
        "turno/admin/queues.html",
        visit=visit,
        query=query,
        values=visit.filter_values(),
        lanes=lanes[:QUEUES_SHOWN],
        left=max(0, len(lanes) - QUEUES_SHOWN),
    )
