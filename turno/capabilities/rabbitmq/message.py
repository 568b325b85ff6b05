"""The messages to the broker, hints that name a job without its data, and their SQL: the database orders them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Self
from uuid import UUID

import msgspec

from turno.jobs.job import Claim
from turno.store.engine.engine import Engine, TypeVersion, claim_of, in_step

MAX_MESSAGE_BYTES = 512  # bytes; the relay writes no longer message


class Undecodable(ValueError):
    """The message was not written by a relay."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names an attempt of a job. The right to run the job comes from the claim alone."""

    job_id: UUID
    schema: Annotated[str, msgspec.Meta(pattern=r"^t_[0-9a-f]{12}\Z")]
    attempt: Annotated[int, msgspec.Meta(ge=0)]

    def encode(self) -> bytes:
        """Return the message's body."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read a body; raises Undecodable with a sentence for the operator of the quarantine."""
        if len(body) > MAX_MESSAGE_BYTES:
            raise Undecodable(f"{len(body)} bytes are more than any message has")
        try:
            return msgspec.json.decode(body, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Undecodable(f"not an object of job_id, schema and attempt: {error}") from None


def unpublished(engine: Engine, window: int, limit: int) -> list[Message]:
    """Return the messages that the broker lacks: up to `window` of each tenant, tenants in turn.

    Only jobs of types and queues that living consumers have registered; of a tenant the highest priority first.
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

    A job of the tenant with a higher priority is claimed in its place, one time in eight the tenant's oldest.
    """
    names, versions = in_step(types)
    statement = "SELECT * FROM claim_message(%s, %s, %s, %s, %s)"
    return engine.row(claim_of, statement, worker, message.job_id, message.schema, names, versions)
