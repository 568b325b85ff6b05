"""A job to enqueue, from each source of jobs to the database."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self
from uuid import UUID

from turno.errors import NotEnqueued
from turno.jobs.converter import restore_payload
from turno.jobs.handler import Handler, JobHandler
from turno.jobs.job import Priority

UNIQUE_WHILE = ("open", "for ever")
LONGEST_KEY = 255  # bytes
IDEMPOTENCY_KEY = r"[\x21-\x7e]{1,255}"  # visible ASCII
FARTHEST = timedelta(days=366)
# A job that is due for longer precedes the rest of its tenant, and its wait is counted from then.
LONGEST_PAST = timedelta(days=1)

UniqueFor = timedelta | float | str | None  # a number is in seconds; a text is one of UNIQUE_WHILE


class Enqueued(NamedTuple):
    """The job of a request; not new if the key identified an earlier job."""

    job_id: UUID
    is_new: bool


class Published(NamedTuple):
    """An event, and the number of its jobs."""

    event_id: UUID
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to enqueue, with fields of the SQL type `turno.new_job`; the payload is checked and in its JSON form."""

    type: str
    version: int
    queue: str
    max_attempts: int
    payload: Any
    user_id: str = ""  # empty: of the application, or of the creating job
    backend: str | None = None
    priority: Priority = Priority.NORMAL
    run_at: datetime | None = None
    run_in: timedelta | None = None
    expires_at: datetime | None = None
    idempotency_key: str | None = None
    unique_for: timedelta | None = None
    unique_while: str | None = None
    concurrency_key: str | None = None
    correlation_id: str | None = None
    trace_context: str | None = None
    parent_id: UUID | None = None

    @classmethod
    def of(
        cls,
        handler: Handler,
        payload: Any,
        *,
        run_at: datetime | None = None,
        run_in: timedelta | float | None = None,
        priority: Priority | str = Priority.NORMAL,
        unique_for: UniqueFor = None,
        concurrency_key: str | None = None,
        queue: str | None = None,
        **others: Any,
    ) -> Self:
        """Return a job of this handler; raises NotEnqueued naming the invalid option.

        `concurrency_key` replaces the key that the handler makes of the payload; an empty one means none.
        """
        if run_at is not None and run_in is not None:
            raise NotEnqueued("run_at and run_in are both given: give one of them")
        if run_at is not None and run_at.utcoffset() is None:
            raise NotEnqueued("run_at has no time zone: give it one, such as datetime.now(UTC) has")
        if isinstance(priority, str):
            if priority.upper() not in Priority.__members__:
                raise NotEnqueued(f"priority {priority[:60]!r} is unknown: use urgent, normal or low")
            priority = Priority[priority.upper()]
        if isinstance(unique_for, str) and unique_for not in UNIQUE_WHILE:
            raise NotEnqueued(f"unique_for {unique_for[:60]!r} is unknown: use seconds, 'open' or 'for ever'")
        if isinstance(unique_for, int | float):
            unique_for = timedelta(seconds=unique_for)
        usual = {
            "type": handler.type,
            "version": handler.version,
            "queue": queue_of(handler, queue),
            "max_attempts": handler.retry.max_attempts,
            "payload": payload,
            "run_at": run_at,
            "run_in": timedelta(seconds=run_in) if isinstance(run_in, int | float) else run_in,
            "priority": priority,
            "unique_for": None if isinstance(unique_for, str) else unique_for,
            "unique_while": unique_for if isinstance(unique_for, str) else None,
            "concurrency_key": key_of(handler, payload, concurrency_key),
        }
        return cls(**{**usual, **others})


_NAMES = tuple(field.name for field in fields(NewJob))


def as_json(jobs: Iterable[NewJob], **stamped: str) -> str:
    """Return jobs as an array of JSON objects with the names of their fields; `stamped` replaces fields of each."""
    given = [{name: value for name in _NAMES if (value := getattr(job, name)) is not None} for job in jobs]
    return json.dumps([values | stamped for values in given], default=str)  # for times and ids; payloads are plain


def queue_of(handler: Handler, queue: str | None) -> str:
    """Return the queue for a job of this handler; raises NotEnqueued for a queue that the type does not have."""
    allowed = handler.all_queues()
    if queue is not None and queue not in allowed:
        text = f"jobs of type {handler.type!r} do not wait in the queue {queue[:63]!r}"
        raise NotEnqueued(f"{text}: choose one of {', '.join(sorted(allowed))}")
    return queue or handler.queue


def is_keyed(handler: Handler) -> bool:
    """Return whether a type makes concurrency keys of its payloads."""
    return handler.concurrency_key.__func__ is not JobHandler.concurrency_key.__func__  # type: ignore[attr-defined]


def key_of(handler: Handler, checked: Any, named: str | None = None) -> str | None:
    """Return a job's concurrency key: the given one, else the key that its handler makes of the checked payload."""
    if named is None and is_keyed(handler):
        named = handler.concurrency_key(restore_payload(handler, checked))
    if named is not None and len(named.encode()) > LONGEST_KEY:
        raise NotEnqueued(f"the concurrency key {named[:60]!r} is longer than {LONGEST_KEY} bytes: make it shorter")
    return named or None


def payload_of(payload: Any, fields: Mapping[str, Any]) -> Any:
    """Return one payload of a whole value and of fields given by name."""
    if payload is None:
        return dict(fields)
    if not fields:
        return payload
    if not isinstance(payload, Mapping):
        raise NotEnqueued(f"give the payload as {type(payload).__name__} or by its fields, not both")
    return {**payload, **fields}


def untimely(run_at: datetime | None, expires_at: datetime | None, now: datetime) -> list[tuple[str, str]]:
    """Return the problems of these times against the clock, each after the name of its field."""
    problems = []
    if run_at and not now - LONGEST_PAST < run_at <= now + FARTHEST:
        problems.append(("run_at", "must be at most one year ahead and one day past"))
    if expires_at and expires_at <= max(now, run_at or now):
        problems.append(("expires_at", "must be in the future and after run_at"))
    elif expires_at and expires_at > max(now, run_at or now) + FARTHEST:
        problems.append(("expires_at", "must be at most one year after run_at"))
    return problems
