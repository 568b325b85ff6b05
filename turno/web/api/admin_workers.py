"""/api/admin/workers: who runs jobs now, and asking one to be quiet or to stop."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from flask import Response, request

from turno.settings import Backend
from turno.store.operator.run_time_settings import ask_worker, list_workers
from turno.web.api.job_id import read_id
from turno.web.api.typed_body import read_changes
from turno.web.http.json_answers import answer, from_row
from turno.web.http.problems import Kind, Problem
from turno.web.routes import Answer, Operation, OperatorCall, Routes
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


LIST = Operation(
    method="GET",
    rule="/api/admin/workers",
    summary="List workers",
    access="operator",
    one_tenant=False,
    everywhere=True,
    answers={200: Answer(about="The workers.", body=WorkerList)},
)

ASK = Operation(
    method="PATCH",
    rule="/api/admin/workers/<worker_id>",
    summary="Ask a worker to be quiet or to stop",
    about="It hears of it with its next heartbeat, and finishes what it has. What was stopped a supervisor of the host "
    "may start anew.",
    access="operator",
    one_tenant=False,
    everywhere=True,
    body=WorkerRequest,
    answers={200: Answer(about="The workers after it.", body=WorkerList)},
    problems=(Kind.NOT_FOUND,),
)


@admin_workers.across(LIST)
def workers(call: OperatorCall) -> Response:
    """List workers."""
    del call
    return answer(_listed())


@admin_workers.across(ASK)
def ask(call: OperatorCall, worker_id: str) -> Response:
    """Ask a worker to be quiet, to stop, or to go on."""
    gone = Problem(Kind.NOT_FOUND, "There is no such worker any more.")
    worker = read_id(worker_id, gone)
    asked = read_changes(request, WorkerRequest)["request"]
    with lend_operator()() as operator:
        if not ask_worker(operator, worker, asked, by=call.principal.user):
            raise gone
    return answer(_listed())


def _listed() -> WorkerList:
    with lend_operator()() as operator:
        rows = list_workers(operator)
    return WorkerList(
        [
            from_row(WorkerBody, row, worker_id=row["id"], running=[RunningJob(**one) for one in row["running"]])
            for row in rows
        ]
    )
