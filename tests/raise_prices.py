"""Raise the prices of some products; an unknown product does not stop the job."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from turno import InvalidPayload, JobContext, JobHandler, RetryPolicy, UserError


@dataclass(frozen=True, slots=True)
class RaisePricesPayload:
    """Which products, and by how many per cent."""

    product_ids: tuple[int, ...]
    percent: Decimal


class RaisePrices(JobHandler[RaisePricesPayload]):
    """Raise each price once: twice would be wrong, and the ledger is why it cannot happen."""

    type = "raise_prices"
    retry = RetryPolicy(max_attempts=3)
    timeout = 300.0

    @classmethod
    def validate(cls, payload: RaisePricesPayload) -> None:
        """Refuse an invalid raise before a job exists."""
        if not 0 < payload.percent <= 50:
            raise InvalidPayload([{"field": "percent", "problem": "must be above 0 and at most 50"}])

    def handle(self, job: JobContext, payload: RaisePricesPayload) -> dict[str, Any]:
        """Raise the prices, fifty to a transaction, each together with its line in the ledger."""
        batch = job.each(payload.product_ids)
        for step in batch:
            with step as item:
                row = job.connection.execute(
                    "UPDATE products SET unit_price = round(unit_price * (1 + %s / 100), 4)"
                    " WHERE id = %s RETURNING unit_price",
                    (payload.percent, item.value),
                ).fetchone()
                if row is None:
                    raise UserError(f"There is no product {item.value}: check its number.")
                item.ref = str(row[0])
        return {"raised": batch.counts.done, "failed": batch.counts.failed}
