"""The due deliveries of ended jobs, as the engine."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from turno.jobs.label import Outcome
from turno.maintenance.each_tenant import EachTenant, TaskReport
from turno.store.engine.engine import Engine

READ_BATCH = 2000  # batches of outcomes a statement: a tenth of a second


@dataclass(frozen=True, slots=True)
class Delivery:
    """A taken delivery and the end of its job; `attempts` counts the failed tries before.

    With an `address_id` the `url` is an operator's. A `url` with the scheme mailto: is a mail in `language`.
    """

    id: int
    job_id: UUID
    tenant_id: int
    slug: str
    url: str
    language: str | None
    address_id: int | None
    type: str
    outcome: Outcome
    ended_at: datetime
    attempts: int


def make_deliveries_due(engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make the webhooks and mails of ended jobs due; the report counts the outcomes that were read."""
    return TaskReport(each_tenant.in_batches(make_due, engine, READ_BATCH))


def make_due(engine: Engine, limit: int) -> int:
    """Make deliveries due for the next `limit` batches of outcomes; returns the number of outcomes."""
    return int(engine.value("SELECT webhooks_due(%s)", limit))


def take(engine: Engine, lease: timedelta, *, each: int, limit: int, busy: Collection[int]) -> list[Delivery]:
    """Take due deliveries for `lease`, at most `each` of a tenant, and none of the tenants `busy` (their ids)."""
    statement = "SELECT * FROM webhooks_take(%s, %s, %s, %s::integer[])"
    return engine.rows(Delivery, statement, lease, each, limit, list(busy))


def delivered(engine: Engine, delivery: Delivery) -> None:
    """Delete a delivery that its receiver accepted."""
    engine.execute("SELECT webhook_tried(%s, NULL, NULL)", (delivery.id,))


def failed(engine: Engine, delivery: Delivery, error: str, pause: timedelta | None) -> None:
    """Count a failed delivery; the next is due after `pause`, or with None only by an operator's command."""
    engine.execute("SELECT webhook_tried(%s, %s, %s)", (delivery.id, error, pause))
