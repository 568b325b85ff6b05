"""Invoice many orders of one branch; an order that cannot be invoiced does not stop the remaining orders."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, ClassVar
from uuid import UUID

from msgspec import Meta

from handlers.batch_invoicing_words import WORDS
from handlers.invoicing import AlreadyInvoiced, InvoicingError, issue_all
from turno import InvalidPayload, JobContext, JobHandler, PartsFailed, RetryPolicy

LARGEST_BATCH = 50_000
# Orders that are invoiced, numbered and committed together: a tenth of a batch, within these.
FEWEST_TOGETHER, MOST_TOGETHER = 50, 250


@dataclass(frozen=True, slots=True)
class BatchInvoicingPayload:
    """The orders to invoice, each once and at most 50,000, and the point of sale that numbers the invoices."""

    order_ids: Annotated[tuple[int, ...], Meta(max_length=LARGEST_BATCH)]
    point_of_sale: int = 1


class BatchInvoicing(JobHandler[BatchInvoicingPayload]):
    """Turn orders into invoices; an InvoicingError is recorded as the error of its order."""

    type = "batch_invoicing"
    queue = "cold"
    retry = RetryPolicy(max_attempts=4)
    user_errors, lasting_errors = (InvoicingError,), (AlreadyInvoiced,)
    words = WORDS
    part: ClassVar[int] = 2_500  # orders; a larger batch is split into parts of this size

    @classmethod
    def summary(cls, payload: BatchInvoicingPayload, language: str) -> str:
        """Return the number of orders, and the point of sale."""
        orders, point = len(payload.order_ids), f"{payload.point_of_sale:05d}"
        if language == "es":
            return f"{orders} {'pedido' if orders == 1 else 'pedidos'}, punto de venta {point}"
        return f"{orders} {'order' if orders == 1 else 'orders'}, point of sale {point}"

    @classmethod
    def validate(cls, payload: BatchInvoicingPayload) -> None:
        """Refuse an empty batch and an order named twice."""
        if not payload.order_ids:
            raise InvalidPayload([{"field": "order_ids", "problem": "name at least one order to invoice"}])
        if twice := sorted(order for order, times in Counter(payload.order_ids).items() if times > 1)[:5]:
            problem = f"named more than once: {', '.join(map(str, twice))}; name each order once"
            raise InvalidPayload([{"field": "order_ids", "problem": problem}])

    def handle(self, job: JobContext, payload: BatchInvoicingPayload) -> dict[str, Any]:
        """Invoice in ascending order id, so that two batches never wait for each other in a circle.

        A large batch is split into parts, which several workers share.
        """
        orders = sorted(payload.order_ids)
        if len(orders) <= self.part:
            return self._invoice(job, orders, payload.point_of_sale)
        cuts = range(0, len(orders), self.part)
        cut = [replace(payload, order_ids=tuple(orders[at : at + self.part])) for at in cuts]
        parts = job.fan_out(type(self), cut, total=len(orders))
        if not all(part.completed for part in parts):
            raise PartsFailed(parts)
        results = [part.result or {} for part in parts]
        counts = {name: sum(result[name] for result in results) for name in ("invoiced", "failed", "skipped")}
        return counts | _totals(job, [part.job_id for part in parts])

    def _invoice(self, job: JobContext, orders: Sequence[int], point_of_sale: int) -> dict[str, Any]:
        batch = job.each(orders)
        together = min(max(FEWEST_TOGETHER, len(orders) // 10), MOST_TOGETHER)
        for group in batch.groups(together):
            with group as items:
                answers = issue_all(job.connection, [item.value for item in items], point_of_sale)
                for item in items:
                    answer = answers[item.value]
                    if isinstance(answer, InvoicingError):
                        item.fail(answer)
                    else:
                        item.ref = ", ".join(invoice.label for invoice in answer)
        counts = batch.counts
        return {"invoiced": counts.done, "failed": counts.failed, "skipped": counts.skipped} | _totals(
            job, [job.job_id]
        )


def _totals(job: JobContext, job_ids: Sequence[UUID]) -> dict[str, dict[str, Decimal]]:
    """Return the invoiced minus the credited amounts of the items of these jobs, in each currency."""
    query = """
        SELECT v.currency, sum(v.net_total * s.sign), sum(v.total * s.sign)
        FROM background_job_items i JOIN invoices v ON v.order_id = i.key::bigint
        CROSS JOIN LATERAL (SELECT CASE v.kind WHEN 'invoice' THEN 1 ELSE -1 END AS sign) s
        WHERE i.job_id = ANY (%s) AND i.state = 'done'
        GROUP BY v.currency ORDER BY v.currency
    """
    rows = job.connection.execute(query, (list(job_ids),)).fetchall()
    return {"net_totals": {row[0]: row[1] for row in rows}, "totals": {row[0]: row[2] for row in rows}}
