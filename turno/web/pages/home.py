"""GET /: the orders to invoice, what is under way, what was invoiced, and the list of jobs."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from flask import Response, request

from turno.jobs.job import Status
from turno.store import orders
from turno.store.api import jobs as stored_jobs
from turno.store.api import notifications
from turno.tenancy.identity.session import as_api
from turno.web.http import query
from turno.web.http.query import Parameter, read_query
from turno.web.pages.drawing import draw
from turno.web.pages.job_detail import JobDetail, job_detail
from turno.web.pages.job_view import BATCH, JobView, job_view
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import Visit
from turno.web.services import services

home = Pages("home", __name__)

ORDERS_SHOWN = 25
JOBS_SHOWN = 20
MOST_ACTIVE = 5
REASONS_SHOWN = 5  # of a row that is open; its page has the others
LARGEST_ID = 2**63 - 1
LARGEST_POINT = 99_999
OPEN = (Status.PENDING, Status.RUNNING)
SHOWN: Mapping[str, tuple[Status, ...]] = {
    "open": OPEN,
    "completed": (Status.COMPLETED,),
    "failed": (Status.FAILED,),
    "cancelled": (Status.CANCELLED,),
}
NOTICES = ("replayed", "cut", "none", "quota", "ended", "not_retryable", "done", "refused")


def _text_or_none(given: str) -> str:
    return query.text(given.strip()) if given.strip() else ""


def _word_or_none(*allowed: str) -> Any:
    def read(given: str) -> str:
        return query.words(*allowed)(given) if given else ""

    return read


QUERY = (
    Parameter(name="branch", about="", schema={}, read=query.text),
    Parameter(name="lang", about="", schema={}, read=query.text),
    Parameter(name="notice", about="", schema={}, read=_word_or_none(*NOTICES), default=""),
    Parameter(name="q", about="", schema={}, read=_text_or_none, default=""),
    Parameter(name="after", about="", schema={}, read=query.whole(0, LARGEST_ID), default=0),
    Parameter(name="show", about="", schema={}, read=_word_or_none(*SHOWN), default=""),
    Parameter(name="before", about="", schema={}, read=query.CURSOR.read),
    Parameter(name="job", about="", schema={}, read=query.CURSOR.read),
    Parameter(name="open", about="", schema={}, read=query.CURSOR.read),
)


@home.page("/")
def index(visit: Visit) -> Response:
    """Show the branch."""
    asked = read_query(request.args, QUERY, others_ignored=True)
    invoices = BATCH in services().registry.types
    with services().connection() as connection, as_api(connection, visit.scope.tenant) as reader:
        # What was filtered for stands in the list; there an ended batch has its place.
        batches = _batches(reader, visit, None if asked["show"] else asked["job"]) if invoices else []
        context: dict[str, Any] = {
            "unread": notifications.count_unread(reader, visit.user),
            "batches": batches,
            "jobs": _jobs(reader, visit, asked, above=[batch.id for batch in batches]),
            "opened": _opened(reader, visit, asked["open"]),
            "totals": orders.invoice_totals(reader),
        }
        if invoices and not any(batch.active for batch in batches):
            context |= _orders(reader, asked) | _points(reader, visit)
    return draw("home.html", visit=visit, asked=asked, invoices=invoices, shown=SHOWN, key=uuid4().hex, **context)


def _batches(reader: stored_jobs.Reader, visit: Visit, wanted: UUID | None) -> list[JobView]:
    """Return the visitor's batches under way, and the job that the address names."""
    active = stored_jobs.JobFilter(user_id=visit.user, statuses=OPEN, types=(BATCH,), limit=MOST_ACTIVE)
    found = [view for view in (job_view(row, visit) for row in stored_jobs.search(reader, active)) if view.active]
    if wanted and wanted not in [view.body.job_id for view in found]:
        row = stored_jobs.find(reader, wanted, visit.scope.visible_user)
        found += [job_view(row, visit)] if row else []
    return found


def _opened(reader: stored_jobs.Reader, visit: Visit, wanted: UUID | None) -> JobDetail | None:
    """Return what is told of the job whose row is open."""
    row = stored_jobs.find(reader, wanted, visit.scope.visible_user) if wanted else None
    return job_detail(reader, row, visit, limit=REASONS_SHOWN) if row else None


def _orders(reader: orders.Reader, asked: Mapping[str, Any]) -> dict[str, Any]:
    sums = orders.billable_sums(reader, asked["q"])
    rows = orders.billable(reader, asked["q"], after=asked["after"], limit=ORDERS_SHOWN + 1)
    page = rows[:ORDERS_SHOWN]
    return {
        "orders": page,
        "orders_after": page[-1]["order_id"] if len(rows) > len(page) else None,
        "sums": sums,
        "waiting": sum(one["orders"] for one in sums),
        "last": max((one["last"] for one in sums), default=0),
    }


def _points(reader: orders.Reader, visit: Visit) -> dict[str, Any]:
    """Return the points of sale to choose from, and the one that this user chose last."""
    return {"points": orders.points_of_sale(reader), "point": orders.last_point_of_sale(reader, visit.user, BATCH)}


def _jobs(
    reader: stored_jobs.Reader, visit: Visit, asked: Mapping[str, Any], *, above: Sequence[str]
) -> dict[str, Any]:
    """Return a page of the jobs that the visitor may see; unfiltered, without those that the page shows above."""
    wanted = stored_jobs.JobFilter(
        user_id=visit.scope.visible_user,
        statuses=SHOWN.get(asked["show"], ()),
        before=asked["before"],
        limit=JOBS_SHOWN + 1,
    )
    rows = stored_jobs.search(reader, wanted)
    page = [job_view(row, visit) for row in rows[:JOBS_SHOWN]]
    shown = [job for job in page if asked["show"] or job.id not in above]
    return {"page": shown, "before": page[-1].id if len(rows) > len(page) else None}
