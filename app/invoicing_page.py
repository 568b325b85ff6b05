"""GET /: the orders to invoice, the batches under way, the invoices, and the jobs; POST /batches: submit a batch."""

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

from flask import Response, request
from msgspec import Meta

from app import orders
from turno.capabilities.pages.home import HomeQuery, listed, under_way
from turno.pages import (
    Pages,
    Visit,
    draw,
    form_is_wrong,
    form_key,
    go,
    reading,
    submit,
    submitted_before,
)

orders_page = Pages(
    "orders", __name__, template_folder="templates", static_folder="static", static_url_path="/invoicing"
)

BATCH = "batch_invoicing"
ORDERS_SHOWN = 25
LARGEST_BATCH = 50_000  # orders, the limit of the handler; the page lists the remaining orders for the next batch
LARGEST_ID = 2**63 - 1
LARGEST_POINT = 99_999
LONGEST_SEARCH = 255
MAX_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersQuery(HomeQuery):
    """Filter of the order list: a search text and the order that precedes the page."""

    q: Annotated[str, Meta(max_length=LONGEST_SEARCH, pattern=r"^[^\x00]*$")] = ""
    after: Annotated[int, Meta(ge=0, le=LARGEST_ID)] = 0


@orders_page.page("/")
def index(visit: Visit, query: OrdersQuery) -> Response:
    """Show the branch."""
    with reading(visit) as reader:
        batches = under_way(reader, visit, BATCH, query)
        context = listed(reader, visit, query, above=[batch.id for batch in batches])
        context |= {"batches": batches, "totals": orders.invoice_totals(reader)}
        if not any(batch.active for batch in batches):
            context |= _orders(reader, query) | _points(reader, visit)
    return draw("orders.html", visit=visit, query=query, key=uuid4().hex, **context)


@orders_page.form("/batches")
def start(visit: Visit) -> Response:
    """Invoice the chosen orders, or all; the form's key makes one job of it however often it is sent."""
    form_key()
    chosen = _matching_orders(visit) if request.form.get("which") == "all" else _chosen()
    point = _point_of_sale()
    # Read after the orders: an earlier submission may have invoiced the last of them.
    if earlier := submitted_before(visit, BATCH):
        return go(visit.to("/", job=earlier, notice="replayed"))
    if not chosen:
        return go(visit.to("/", q=request.form.get("q"), notice="none"))
    done = submit(visit, BATCH, {"order_ids": chosen[:LARGEST_BATCH]} | point)
    match done.word:
        case "accepted":
            return go(visit.to("/", job=done.job_id, notice="cut" if len(chosen) > LARGEST_BATCH else None))
        case "none":
            return go(visit.to("/", q=request.form.get("q"), notice="none"))
        case word:
            return go(visit.to("/", job=done.job_id if word == "replayed" else None, notice=word))


def _orders(reader: orders.Reader, query: OrdersQuery) -> dict[str, Any]:
    text = query.q.strip()
    sums = orders.billable_sums(reader, text)
    rows = orders.billable(reader, text, after=query.after, limit=ORDERS_SHOWN + 1)
    page = rows[:ORDERS_SHOWN]
    return {
        "orders": page,
        "orders_after": page[-1]["order_id"] if len(rows) > len(page) else None,
        "sums": sums,
        "waiting": sum(total["orders"] for total in sums),
        "last": max((total["last"] for total in sums), default=0),
    }


def _points(reader: orders.Reader, visit: Visit) -> dict[str, Any]:
    """Return the selectable points of sale, and the user's last selection."""
    return {"points": orders.points_of_sale(reader), "point": orders.last_point_of_sale(reader, visit.user, BATCH)}


def _chosen() -> list[int]:
    return sorted({_whole(text, 1, LARGEST_ID) for text in request.form.getlist("order")})


def _point_of_sale() -> dict[str, int]:
    """Return the point of sale of the form, or the job's default if the form has no value."""
    text = request.form.get("point")
    return {} if text is None else {"point_of_sale": _whole(text, 1, LARGEST_POINT)}


def _matching_orders(visit: Visit) -> list[int]:
    """Return the orders that the page counted: none that came after it was drawn."""
    last = _whole(request.form.get("last", ""), 0, LARGEST_ID)
    text = request.form.get("q", "").replace("\0", "")[:LONGEST_SEARCH]
    with reading(visit) as reader:
        return orders.billable_ids(reader, text, last=last)


def _whole(text: str, low: int, high: int) -> int:
    """Return a whole number of the form; raises Problem 400."""
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and low <= int(text) <= high):
        raise form_is_wrong([])
    return int(text)
