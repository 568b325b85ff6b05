"""A handler of an application that works in its own, adopted schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turno.jobs.handler import JobHandler
from turno.jobs.job_context import JobContext


@dataclass(frozen=True, slots=True)
class Surcharge:
    """The surcharge of every order."""

    amount: int


class RaiseOrders(JobHandler[Surcharge]):
    """Raises the application's orders, by the names that its own code uses."""

    type = "raise_orders"

    def handle(self, job: JobContext, payload: Surcharge) -> dict[str, Any]:
        """Write in the adopted schema."""
        changed = job.connection.execute("UPDATE orders SET total = total + %s", [payload.amount])
        schema = job.connection.execute("SELECT current_schema()").fetchone()
        return {"changed": changed.rowcount, "schema": schema and schema[0]}


HANDLERS = [RaiseOrders]
