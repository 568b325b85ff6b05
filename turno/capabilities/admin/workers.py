"""/api/admin/workers and /admin/workers: the living workers, and requests to be quiet or to stop."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from flask import Response, request

from turno.capabilities.admin.settings import Backend
from turno.store.operator.counts import Operator
from turno.store.operator.run_time_settings import ask_worker, list_workers
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import Changes, read_id
from turno.web.responses import Kind, Problem, from_row, invalid
from turno.web.routes import OperatorCall, Routes
from turno.web.services import as_operator, services

admin_workers = Routes("admin_workers", __name__, tag="administration")
worker_list = OperatorPages("operator_workers", __name__)

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
    found = [row | {"worker_id": row["id"], "running": [RunningJob(**job) for job in row["running"]]} for row in rows]
    return WorkerList([from_row(WorkerBody, row) for row in found])


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


@worker_list.page("/admin/workers")
def listed(visit: OperatorVisit) -> Response:
    """List the workers of every host."""
    with as_operator() as operator:
        found = listed_workers(operator, visit)
    asks = visit.principal.may_change and visit.principal.everywhere
    notice = request.args.get("notice")
    return draw("turno/admin/workers.html", visit=visit, workers=found, asks=asks, notice=notice)


@worker_list.form("/admin/workers/<worker_id>", everywhere=True)
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
    return [one | {"lost": one["silent"] > limit} for one in list_workers(operator, visit.companies)]
