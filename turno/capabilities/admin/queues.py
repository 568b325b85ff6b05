"""GET /admin/queues: the open jobs of each queue, type and backend, and the longest wait."""

from dataclasses import dataclass

from flask import Response

from turno.capabilities.admin import board
from turno.web.pages.drawing import draw
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import searchable
from turno.web.services import as_operator

queue_list = OperatorPages("operator_queues", __name__)

SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesQuery:
    """The queue, type and tenant of the counted jobs; a form also sends empty values."""

    queue: str = ""
    type: str = ""
    tenant: str = ""


@queue_list.page("/admin/queues")
def queues(visit: OperatorVisit, asked: QueuesQuery) -> Response:
    """List queues."""
    queue, job_type, tenant = map(searchable, (asked.queue, asked.type, asked.tenant))
    with as_operator() as operator:
        found = board.lanes(operator, visit.companies, queue=queue, job_type=job_type, tenant=tenant)
    return draw(
        "turno/admin/queues.html",
        visit=visit,
        asked=asked,
        values=visit.filter_values(),
        lanes=found[:SHOWN],
        left=max(0, len(found) - SHOWN),
    )
