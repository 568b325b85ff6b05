"""Register job types and their subscriptions in the database, for code in any language that enqueues and publishes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from turno.jobs.enqueue_options import is_keyed
from turno.jobs.registry import Handler, Registry
from turno.store.one_row import value_of


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a job of this type is stamped with, and the events that the type subscribes to."""

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
    return [_of_handler(handler) for handler in registry.handlers]


def _of_handler(handler: Handler) -> Announcement:
    return Announcement(
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


def announce(
    session: psycopg.Connection[Any],
    handlers: Sequence[Announcement],
    pending_limit: int | None,
    *,
    replace_newer: bool = False,
) -> None:
    """Register handlers, as the engine or the provisioner; an older version changes nothing unless `replace_newer`."""
    session.execute(
        "SELECT turno.announce(%s, %s, %s)",
        (Jsonb([asdict(handler) for handler in handlers]), pending_limit, replace_newer),
    )


def prune(engine: psycopg.Connection[Any]) -> int:
    """Remove subscriptions, and types without an open job, a day after their last announcement; returns how many."""
    return int(value_of(engine, "SELECT turno.prune_announcements()"))
