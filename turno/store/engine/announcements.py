"""Tell the database what the code says of each job type, so that code in any language can enqueue it."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from turno.jobs.enqueue_options import is_keyed
from turno.jobs.registry import Handler, Registry

log = logging.getLogger(__name__)

NO_OTHERS = Jsonb([])


class Announcement(NamedTuple):
    """What a job of this type is stamped with."""

    type: str
    version: int
    queue: str
    max_attempts: int
    other_queues: Jsonb = NO_OTHERS
    keyed: bool = False
    key_limit: int | None = None
    key_rate: int | None = None
    key_period: float | None = None
    subscribes: tuple[str, ...] = ()
    backlog: bool = False
    ordered: bool = False


STAMPS = len(Announcement._fields) - 3  # of a type; what follows is for its events


def of(registry: Registry) -> list[Announcement]:
    """Return what to tell of the handlers in a registry."""
    return [_of_handler(one) for one in registry.handlers]


def _of_handler(one: Handler) -> Announcement:
    return Announcement(
        type=one.type,
        version=one.version,
        queue=one.queue,
        max_attempts=one.retry.max_attempts,
        other_queues=Jsonb(list(one.other_queues)),
        keyed=is_keyed(one),
        key_limit=one.key_limit,
        key_rate=one.key_rate[0] if one.key_rate else None,
        key_period=one.key_rate[1] if one.key_rate else None,
        subscribes=one.subscribes,
        backlog=one.subscribes_from == "beginning",
        ordered=one.ordered,
    )


def announce(
    session: psycopg.Connection[Any],
    handlers: Sequence[Announcement],
    pending_limit: int | None,
    *,
    all_of_them: bool = False,
) -> None:
    """Tell it, as the engine or the provisioner; `all_of_them` takes back what was told of other types."""
    columns = [list(column) for column in zip(*(one[:STAMPS] for one in handlers), strict=True)] or [[]] * STAMPS
    session.execute(
        "SELECT turno.announce(%s::text[], %s::smallint[], %s::text[], %s::integer[], %s, %s, %s::jsonb[],"
        " %s::boolean[], %s::integer[], %s::integer[], %s::double precision[])",
        (*columns[:4], pending_limit, all_of_them, *columns[4:]),
    )
    _subscribe(session, handlers)


def _subscribe(session: psycopg.Connection[Any], handlers: Sequence[Announcement]) -> None:
    rows = [(event, one.type, one.backlog, one.ordered) for one in handlers for event in one.subscribes]
    subscriptions = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    try:
        session.execute(
            "SELECT turno.subscribe(%s::text[], %s::smallint[], %s::text[], %s::text[], %s::boolean[], %s::boolean[])",
            ([one.type for one in handlers], [one.version for one in handlers], *subscriptions),
        )
    except psycopg.errors.LockNotAvailable:
        log.warning(
            "subscriptions not changed yet: a transaction that has published an event is open; maintenance tries again"
        )
