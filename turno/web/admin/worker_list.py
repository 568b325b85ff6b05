"""GET /admin/workers: who is alive, and what each works on."""

from typing import Any

from flask import Response

from turno.store.operator import board
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.pages.drawing import draw
from turno.web.services import services

worker_list = OperatorPages("operator_workers", __name__)

JOBS_SHOWN = 200


@worker_list.screen("/admin/workers")
def workers(visit: OperatorVisit) -> Response:
    """List the workers of every host."""
    with as_operator() as operator:
        listed = listed_workers(operator, visit)
    return draw("turno/admin/workers.html", visit=visit, workers=listed)


def listed_workers(operator: board.Operator, visit: OperatorVisit) -> list[dict[str, Any]]:
    """Return every worker with the jobs that it holds, of the tenants that are seen; a silent one is lost."""
    held: dict[Any, list[board.Row]] = {}
    for job in board.running(operator, visit.companies, JOBS_SHOWN):
        held.setdefault(job["worker_id"], []).append(job)
    limit = services().settings.dead_after_seconds
    return [
        worker | {"jobs": held.get(worker["id"], []), "lost": worker["silent"] > limit}
        for worker in board.workers(operator)
    ]
