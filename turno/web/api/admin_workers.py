"""/api/admin/workers: who runs jobs now, and asking one to be quiet or to stop."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from turno.settings import Backend
from turno.store.operator.run_time_settings import ask_worker, list_workers
from turno.web.api.job_id import read_id
from turno.web.http.json_answers import from_row
from turno.web.http.problems import Kind, Problem
from turno.web.http.request_body import Changes
from turno.web.routes import OperatorCall, Routes
from turno.web.services import lend_operator

admin_workers = Routes("admin_workers", __name__, tag="administration")

Request = Literal["quiet", "stop"]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """What a worker has claimed."""

    job_id: UUID
    tenant: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBody:
    """One worker; `silent` is for how many seconds it was not heard of, `queues` null means all."""

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
    """`quiet`: it claims nothing more. `stop`: it ends as by SIGTERM. null: it claims again."""

    request: Request | None = None


@admin_workers.operation("GET /api/admin/workers", everywhere=True)
def workers(call: OperatorCall) -> WorkerList:
    """List workers."""
    del call
    return _listed()


@admin_workers.operation("PATCH /api/admin/workers/<worker_id>", everywhere=True, problems=(Kind.NOT_FOUND,))
def ask(call: OperatorCall, body: Changes[WorkerRequest], worker_id: str) -> WorkerList:
    """Ask a worker to be quiet or to stop.

    It hears of it with its next heartbeat, and finishes what it has. What was stopped a supervisor of the host may
    start anew.
    """
    gone = Problem(Kind.NOT_FOUND, "There is no such worker any more.")
    worker = read_id(worker_id, gone)
    with lend_operator()() as operator:
        if not ask_worker(operator, worker, body["request"], by=call.principal.user):
            raise gone
    return _listed()


def _listed() -> WorkerList:
    with lend_operator()() as operator:
        rows = list_workers(operator)
    return WorkerList(
        [
            from_row(WorkerBody, row, worker_id=row["id"], running=[RunningJob(**one) for one in row["running"]])
            for row in rows
        ]
    )
