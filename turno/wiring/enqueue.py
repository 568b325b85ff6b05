"""Enqueue from anywhere in an application: the handlers that check a payload are those that HANDLERS names."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from turno.environment import said
from turno.jobs.enqueue_options import Enqueued, EnqueueOptions, is_keyed, key_of, payload_of
from turno.jobs.job import Priority
from turno.jobs.named_handlers import named_handlers
from turno.jobs.payload import check_payload
from turno.store import host

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from turno.jobs.handler import JobHandler
    from turno.jobs.registry import Registry

__all__ = ["Enqueued", "enqueue", "enqueue_many"]


def enqueue(
    connection: Any,
    tenant: str,
    job_type: str | type[JobHandler[Any]],
    payload: Any = None,
    /,
    *,
    run_at: datetime | None = None,
    priority: Priority | str = Priority.NORMAL,
    key: str | None = None,
    unique_for: timedelta | float | str | None = None,
    concurrency_key: str | None = None,
    queue: str | None = None,
    user: str | None = None,
    **fields: Any,
) -> Enqueued:
    """Enqueue a job in the caller's own transaction: it is there once that commits, and never if it rolls back.

    `connection` is a psycopg 3 Connection, or a Connection or Session of SQLAlchemy, of a role that `turno host add`
    let in. The payload is given by its fields, or as a mapping or the handler's own dataclass. With `key` the same
    request is one job however often it is made; with `unique_for` so many seconds, while that job is "open", or "for
    ever", and without a key the payload is the key. `concurrency_key` stands instead of the one that the handler makes
    of the payload ("" is none), and `queue` may be one of its `other_queues`. Raises InvalidPayload naming the field,
    UnknownJobType, or NotEnqueued.
    """
    handler = _handler(job_type)
    options = EnqueueOptions.of(handler, run_at, priority, unique_for, queue)
    checked = check_payload(handler, payload_of(payload, fields))
    line = key_of(handler, checked, concurrency_key)
    return host.enqueue(connection, tenant, handler, checked, options=options, key=key, line=line, user=user)


def enqueue_many(
    connection: Any,
    tenant: str,
    job_type: str | type[JobHandler[Any]],
    payloads: Iterable[Any],
    /,
    *,
    run_at: datetime | None = None,
    priority: Priority | str = Priority.NORMAL,
    keys: Sequence[str] | None = None,
    unique_for: timedelta | float | str | None = None,
    queue: str | None = None,
    user: str | None = None,
) -> list[Enqueued]:
    """Enqueue a job for each payload as `enqueue` does, all or none, by one statement; answers in their order."""
    handler = _handler(job_type)
    options = EnqueueOptions.of(handler, run_at, priority, unique_for, queue)
    checked = [check_payload(handler, payload) for payload in payloads]
    lines = [key_of(handler, payload, None) for payload in checked] if is_keyed(handler) else None
    return host.enqueue_many(connection, tenant, handler, checked, options=options, keys=keys, lines=lines, user=user)


def _handler(job_type: str | type[JobHandler[Any]]) -> type[JobHandler[Any]]:
    if isinstance(job_type, type):
        return job_type
    return registry().handler(job_type)


def registry() -> Registry:
    """Return the handlers that HANDLERS names, loaded once."""
    return _registry(os.environ.get("HANDLERS") or _of_project())


@cache
def _of_project() -> str:
    return said("HANDLERS")


@cache
def _registry(place: str) -> Registry:
    return named_handlers(place)
