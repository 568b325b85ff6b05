"""GET /admin/workers: who is alive, what each works on, and asking one to be quiet or to stop."""

from typing import Any

from flask import Response, request

from turno.store.operator import board, run_time_settings
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.api.job_id import read_id
from turno.web.http.problems import Kind, Problem, invalid
from turno.web.pages.drawing import draw, go
from turno.web.services import services

worker_list = OperatorPages("operator_workers", __name__)

JOBS_SHOWN = 200
REQUESTS = {"quiet": "quiet", "stop": "stop", "resume": None}


@worker_list.screen("/admin/workers")
def workers(visit: OperatorVisit) -> Response:
    """List the workers of every host."""
    with as_operator() as operator:
        listed = listed_workers(operator, visit)
    asks = visit.principal.may_change and visit.principal.everywhere
    notice = request.args.get("notice")
    return draw("turno/admin/workers.html", visit=visit, workers=listed, asks=asks, notice=notice)


@worker_list.action("/admin/workers/<worker_id>")
def ask(visit: OperatorVisit, worker_id: str) -> Response:
    """Ask one worker to be quiet, to stop, or to go on; all companies share it."""
    if not visit.principal.everywhere:
        raise Problem(Kind.OPERATORS_ONLY, "All companies share this: it takes an operator of every company.")
    wanted = request.form.get("request", "")
    if wanted not in REQUESTS:
        raise invalid([])
    asked = read_id(worker_id, Problem(Kind.NOT_FOUND, "There is no such worker."))
    with as_operator() as operator:
        there = run_time_settings.ask_worker(operator, asked, REQUESTS[wanted], by=visit.principal.user)
    return go(visit.to("/workers", notice="asked" if there else "gone"))


def listed_workers(operator: board.Operator, visit: OperatorVisit) -> list[dict[str, Any]]:
    """Return every worker with the jobs that it holds, of the tenants that are seen; a silent one is lost."""
    held: dict[Any, list[board.Row]] = {}
    for job in board.running(operator, visit.companies, JOBS_SHOWN):
        held.setdefault(job["worker_id"], []).append(job)
    limit = services().settings.dead_after_seconds
    return [
        worker | {"jobs": held.get(worker["id"], []), "lost": worker["silent"] > limit}
        for worker in run_time_settings.list_workers(operator)
    ]
