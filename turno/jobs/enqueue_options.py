"""What is said of a job besides its type and payload, in the same words by everything in Python that enqueues."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self
from uuid import UUID

from turno.errors import NotEnqueued
from turno.jobs.handler import JobHandler
from turno.jobs.job import Priority
from turno.jobs.payload import restore_payload
from turno.jobs.registry import Handler

UNIQUE_WHILE = ("open", "for ever")
LONGEST_KEY = 255  # bytes

UniqueFor = timedelta | str | None  # or "open": while its job is, or "for ever"


class Enqueued(NamedTuple):
    """The job that was asked for; not new if it was there already, under its key."""

    job_id: UUID
    is_new: bool


class Published(NamedTuple):
    """An event, and how many jobs were made for it."""

    event_id: UUID
    jobs: int


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """When, how urgent, unique for how long, and in which queue."""

    run_at: datetime | None
    priority: Priority
    unique_for: timedelta | None
    unique_while: str | None
    queue: str

    @classmethod
    def of(
        cls,
        handler: Handler,
        run_at: datetime | None,
        priority: Priority | str,
        unique_for: timedelta | float | str | None,
        queue: str | None,
    ) -> Self:
        """Return them checked; raises NotEnqueued naming the option. Numbers are seconds."""
        if run_at is not None and run_at.utcoffset() is None:
            raise NotEnqueued("run_at has no time zone: give it one, such as datetime.now(UTC) has")
        if isinstance(priority, str):
            if priority.upper() not in Priority.__members__:
                raise NotEnqueued(f"priority {priority[:60]!r} is none: say urgent, normal or low")
            priority = Priority[priority.upper()]
        if isinstance(unique_for, int | float):
            unique_for = timedelta(seconds=unique_for)
        return cls(run_at, priority, *lasting(unique_for), queue_of(handler, queue))


def lasting(unique_for: UniqueFor) -> tuple[timedelta | None, str | None]:
    """Return for how long a key holds, and while what, as the database takes them; raises NotEnqueued."""
    if not isinstance(unique_for, str):
        return unique_for, None
    if unique_for not in UNIQUE_WHILE:
        raise NotEnqueued(f"unique_for {unique_for[:60]!r} is none: say seconds, 'open' or 'for ever'")
    return None, unique_for


def queue_of(handler: Handler, queue: str | None) -> str:
    """Return the queue for a job of this handler; raises NotEnqueued if it is none of the type's."""
    allowed = handler.all_queues()
    if queue is not None and queue not in allowed:
        said = f"jobs of type {handler.type!r} do not wait in the queue {queue[:63]!r}"
        raise NotEnqueued(f"{said}: choose one of {', '.join(sorted(allowed))}")
    return queue or handler.queue


def is_keyed(handler: Handler) -> bool:
    """Say whether a type makes concurrency keys of its payloads."""
    return handler.concurrency_key.__func__ is not JobHandler.concurrency_key.__func__  # type: ignore[attr-defined]


def key_of(handler: Handler, checked: Any, named: str | None = None) -> str | None:
    """Return a job's concurrency key: the one that was named, else what its handler makes of the checked payload."""
    if named is None and is_keyed(handler):
        named = handler.concurrency_key(restore_payload(handler, checked))
    if named is not None and len(named.encode()) > LONGEST_KEY:
        raise NotEnqueued(f"the concurrency key {named[:60]!r} is longer than {LONGEST_KEY} bytes: make it shorter")
    return named or None


def payload_of(payload: Any, fields: Mapping[str, Any]) -> Any:
    """Return one payload of what was given as a whole and of what was given by name."""
    if payload is None:
        return dict(fields)
    if not fields:
        return payload
    if not isinstance(payload, Mapping):
        raise NotEnqueued(f"give the payload as {type(payload).__name__} or by its fields, not both")
    return {**payload, **fields}
