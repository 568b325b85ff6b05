"""Job types and their subscriptions as the database records them, for code in any language."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from turno.jobs.converter import payload_digest
from turno.jobs.handler import Registry
from turno.jobs.new_job import is_keyed


@dataclass(frozen=True, slots=True)
class Announcement:
    """The properties of each job of this type, and the events that the type subscribes to.

    `payload` is the digest of the declared fields.
    """

    type: str
    version: int
    queue: str
    max_attempts: int
    other_queues: tuple[str, ...] = ()
    keyed: bool = False
    key_limit: int | None = None
    key_rate: int | None = None
    key_period: float | None = None
    subscribes: tuple[str, ...] = ()
    ordered: bool = False
    payload: str = ""


def of(registry: Registry) -> list[Announcement]:
    """Return the announcement of each handler in a registry."""
    return [
        Announcement(
            type=handler.type,
            version=handler.version,
            queue=handler.queue,
            max_attempts=handler.retry.max_attempts,
            other_queues=tuple(handler.other_queues),
            keyed=is_keyed(handler),
            key_limit=handler.key_limit,
            key_rate=handler.key_rate[0] if handler.key_rate else None,
            key_period=handler.key_rate[1] if handler.key_rate else None,
            subscribes=tuple(handler.subscribes),
            ordered=handler.ordered,
            payload=payload_digest(handler),
        )
        for handler in registry.handlers
    ]


def changed_payloads(connection: Connection[Any]) -> list[str]:
    """Return a sentence for each type of which releases announced two payloads for one version within a day."""
    rows = connection.execute(
        "SELECT type::text, version FROM turno.handler_payloads GROUP BY 1, 2 HAVING count(*) > 1 ORDER BY 1, 2"
    ).fetchall()
    return [f"the payload of {name} changed, and its version {version} did not" for name, version in rows]


RAISE_VERSION = (
    "raise `version` of the handler, unless workers of both releases accept all jobs: a worker returns jobs with fields"
    " that it does not declare for an hour after the other release's last announcement"
)
