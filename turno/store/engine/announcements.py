"""Job types and their subscriptions as the database records them, for code in any language."""

from dataclasses import dataclass

from turno.jobs.handler import Registry
from turno.jobs.new_job import is_keyed


@dataclass(frozen=True, slots=True)
class Announcement:
    """The properties of each job of this type, and the events that the type subscribes to."""

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
        )
        for handler in registry.handlers
    ]
