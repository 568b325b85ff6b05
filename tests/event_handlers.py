"""Handlers that are subscribed to events, and one that publishes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from turno.errors import PermanentFailure
from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import Cancel, Reschedule, RetryPolicy


@dataclass(frozen=True, slots=True)
class Paid:
    """An order was paid."""

    order_id: int
    note: str = ""


class SendReceipt(JobHandler[Paid]):
    """Hears what is paid."""

    type = "send_receipt"
    subscribes: ClassVar[tuple[str, ...]] = ("order.paid",)

    def handle(self, _job: JobContext, payload: Paid) -> dict[str, Any]:
        """Say which order it was."""
        return {"order": payload.order_id}


class Ledger(JobHandler[Paid]):
    """Receives payments and refunds, the events of an order one after another."""

    type = "ledger"
    subscribes = ("order.paid", "order.refunded")
    key_limit = 1

    @classmethod
    def concurrency_key(cls, payload: Paid) -> str | None:
        """Return the order's."""
        return f"order-{payload.order_id}"

    def handle(self, _job: JobContext, payload: Paid) -> dict[str, Any]:
        """Say which order it was."""
        return {"order": payload.order_id}


class Pay(JobHandler[Paid]):
    """Publishes within its own transaction."""

    type = "pay"
    retry = RetryPolicy(max_attempts=1)

    def handle(self, job: JobContext, payload: Paid) -> dict[str, Any]:
        """Publish, and fail afterwards if the note requests it."""
        published = job.publish("order.paid", order_id=payload.order_id)
        if payload.note == "fail":
            raise ValueError("after it was published")
        return {"jobs": published.jobs}


@dataclass(frozen=True, slots=True)
class Moved:
    """Stock was moved; `how` is the behaviour of a subscriber's jobs."""

    number: int
    how: str = ""


class Stock(JobHandler[Moved]):
    """Hears the movements of one article one after another."""

    type = "stock"
    subscribes = ("stock.moved",)
    ordered = True

    def handle(self, job: JobContext, payload: Moved) -> dict[str, Any] | Cancel | Reschedule:
        """Complete, or follow the event's `how`."""
        match payload.how:
            case "error" if job.attempt == 1:
                raise ValueError("not yet")
            case "later" if job.attempt == 1:
                return Reschedule(after=300)
            case "skip":
                return Cancel("is of no account")
            case "never" if self.type == "stock":
                raise PermanentFailure("cannot be")
        return {}


class StockBoard(Stock):
    """Receives the same events in a separate order."""

    type = "stock_board"


REGISTRY = Registry.of((SendReceipt, Ledger, Pay, Stock, StockBoard))
REGISTRY_PATH = "tests.event_handlers:REGISTRY"


class SendReceiptOfRefunds(SendReceipt):
    """The same type in a newer release, which subscribes to one event more."""

    subscribes: ClassVar[tuple[str, ...]] = ("order.paid", "order.refunded")


NEWER_REGISTRY = Registry.of((SendReceiptOfRefunds, Ledger, Pay, Stock, StockBoard))
NEWER = "tests.event_handlers:NEWER_REGISTRY"
