"""SQL of the relay and of claims by messages: the database keeps the order of tickets."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from turno.capabilities.rabbitmq.message import Message
from turno.jobs.job import Claim
from turno.store.engine.engine import Engine, TypeVersion, claim_of, in_step


def unpublished(engine: Engine, window: int, limit: int) -> list[Message]:
    """Return the messages that the broker lacks: up to `window` of each tenant, tenants in turn.

    Only jobs of types and queues that living consumers have registered; of a tenant its best band first.
    """
    return engine.rows(Message, "SELECT * FROM unpublished(%s, %s)", window, limit)


def mark_published(engine: Engine, sent: Sequence[Message]) -> None:
    """Record the messages that the broker has confirmed."""
    jobs, attempts = [message.job_id for message in sent], [message.attempt for message in sent]
    engine.execute("SELECT mark_published(%s, %s)", (jobs, attempts))


def unpublish(engine: Engine, waiting_for: timedelta) -> int:
    """Mark messages unpublished that led to no claim for so long; return their number."""
    return int(engine.value("SELECT unpublish(%s)", waiting_for))


def claim_message(engine: Engine, worker: UUID, message: Message, *, types: Sequence[TypeVersion]) -> Claim | None:
    """Claim the job that a message names, if it may run now, belongs to its tenant, and has one of these types.

    A job of the tenant in a better band is claimed in its place, one time in eight the tenant's oldest.
    """
    names, versions = in_step(types)
    statement = "SELECT * FROM claim_message(%s, %s, %s, %s, %s)"
    return engine.row(claim_of, statement, worker, message.job_id, message.schema, names, versions)
