"""Enqueue from anywhere in an application: the handlers of TURNO_HANDLERS check the payloads."""

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, wraps
from inspect import Parameter, signature
from itertools import repeat
from typing import Any, Concatenate, ParamSpec, TypeVar

from turno.environment import setting
from turno.errors import NotEnqueued
from turno.jobs.converter import check_payload
from turno.jobs.handler import JobHandler, Registry, named_handlers
from turno.jobs.job import PriorityName
from turno.jobs.new_job import Enqueued, NewJob, UniqueFor, is_keyed, payload_of
from turno.store import host

__all__ = ["Enqueued", "enqueue", "enqueue_async", "enqueue_many", "enqueue_many_async"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")


def _enqueue_request(
    tenant: str,
    job_type: str | type[JobHandler[T]],
    payload: T | Mapping[str, Any] | None = None,
    /,
    *,
    run_at: datetime | None = None,
    run_in: timedelta | float | None = None,
    priority: PriorityName = "normal",
    key: str | None = None,
    unique_for: UniqueFor = None,
    concurrency_key: str | None = None,
    queue: str | None = None,
    user: str | None = None,
    **fields: Any,
) -> host.Request[Enqueued]:
    """Enqueue a job in the transaction that is open on the connection, which is the first argument.

    The connection is of psycopg 3, psycopg2, asyncpg, SQLAlchemy or Django, of a role that `turno host add` admitted;
    an asynchronous connection needs `await enqueue_async(…)`. The payload is given by its fields, or as a mapping or
    the handler's own dataclass. With `key` the same request is one job however often it is made; with `unique_for` so
    many seconds, while that job is "open", or "for ever", and without a key the payload is the key. `run_in`, a
    timedelta or seconds, may replace `run_at`. `concurrency_key` replaces the key that the handler makes of the payload
    ("" removes it), and `queue` may be one of its `other_queues`. Raises InvalidPayload with the field, UnknownJobType,
    or NotEnqueued.
    """
    handler = _handler(job_type)
    new = NewJob.of(
        handler,
        check_payload(handler, payload_of(payload, fields)),
        run_at=run_at,
        run_in=run_in,
        priority=priority,
        idempotency_key=key,
        unique_for=unique_for,
        concurrency_key=concurrency_key,
        queue=queue,
    )
    return host.enqueue(tenant, [new], keyed=is_keyed(handler), user=user).then(lambda enqueued: enqueued[0])


def _many(
    tenant: str,
    job_type: str | type[JobHandler[T]],
    payloads: Iterable[T | Mapping[str, Any]],
    /,
    *,
    run_at: datetime | None = None,
    run_in: timedelta | float | None = None,
    priority: PriorityName = "normal",
    keys: Sequence[str] | None = None,
    unique_for: UniqueFor = None,
    queue: str | None = None,
    user: str | None = None,
) -> host.Request[list[Enqueued]]:
    """Enqueue a job for each payload as `enqueue` does, all or none, by one statement; answers in their order."""
    handler = _handler(job_type)
    checked = [check_payload(handler, payload) for payload in payloads]
    if keys is not None and len(keys) != len(checked):
        raise NotEnqueued(f"{len(keys)} keys for {len(checked)} payloads: give each payload its key, or none a key")
    new = [
        NewJob.of(
            handler,
            payload,
            run_at=run_at,
            run_in=run_in,
            priority=priority,
            idempotency_key=key,
            unique_for=unique_for,
            queue=queue,
        )
        for payload, key in zip(checked, keys or repeat(None), strict=False)
    ]
    return host.enqueue(tenant, new, keyed=is_keyed(handler), user=user)


def _synchronous(name: str, request: Callable[P, host.Request[R]]) -> Callable[Concatenate[Any, P], R]:
    def send(connection: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        return request(*arguments, **options).send(connection)

    return _documented(send, name, request)


def _asynchronous(
    name: str, request: Callable[P, host.Request[R]]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    async def send(connection: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        return await request(*arguments, **options).send_async(connection)

    return _documented(send, name, request)


def _documented(function: F, name: str, request: Callable[..., Any]) -> F:
    """Give a function its public name, and the text and signature of `request` after a connection."""
    wraps(request)(function)
    function.__name__ = function.__qualname__ = name
    own = signature(request)
    parameters = [Parameter("connection", Parameter.POSITIONAL_ONLY), *own.parameters.values()]
    function.__signature__ = own.replace(parameters=parameters, return_annotation=own.empty)  # type: ignore[attr-defined]
    return function


enqueue, enqueue_many = _synchronous("enqueue", _enqueue_request), _synchronous("enqueue_many", _many)
enqueue_async = _asynchronous("enqueue_async", _enqueue_request)
enqueue_many_async = _asynchronous("enqueue_many_async", _many)


def _handler(job_type: str | type[JobHandler[Any]]) -> type[JobHandler[Any]]:
    return job_type if isinstance(job_type, type) else registry().handler(job_type)


def registry() -> Registry:
    """Return the handlers that TURNO_HANDLERS names, loaded once."""
    return _loaded(os.environ.get("TURNO_HANDLERS") or _setting("handlers"))


_loaded, _setting = cache(named_handlers), cache(setting)
