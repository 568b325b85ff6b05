"""Tell the database what the code says of each job type, so that code in any language can enqueue it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from turno.jobs.registry import Registry


class Announcement(NamedTuple):
    """What a job of this type is stamped with."""

    type: str
    version: int
    queue: str
    max_attempts: int


def of(registry: Registry) -> list[Announcement]:
    """Return what to tell of the handlers in a registry."""
    return [Announcement(one.type, one.version, one.queue, one.retry.max_attempts) for one in registry.handlers]


def announce(
    session: psycopg.Connection[Any], handlers: Sequence[Announcement], pending_limit: int, *, all_of_them: bool = False
) -> None:
    """Tell it, as the engine or the provisioner; `all_of_them` takes back what was told of other types."""
    columns = [list(column) for column in zip(*handlers, strict=True)] or [[], [], [], []]
    session.execute(
        "SELECT turno.announce(%s::text[], %s::smallint[], %s::text[], %s::integer[], %s, %s)",
        (*columns, pending_limit, all_of_them),
    )
