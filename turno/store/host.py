"""Enqueue on a connection of the application's own: in its transaction, under its role."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from turno.errors import NotEnqueued
from turno.jobs.new_job import Enqueued
from turno.store.statements import broken_limit

if TYPE_CHECKING:
    from turno.jobs.new_job import NewJob

Ask = Callable[[LiteralString, tuple[Any, ...]], Sequence[Any]]

# In text and casts, so that every driver that writes parameters as %s can send it.
ENQUEUE: LiteralString = """
SELECT job_id, is_new FROM turno.enqueue_many(
    tenant => %s, type => %s, payloads => %s::jsonb, run_at => %s::timestamptz, run_in => %s::interval, priority => %s,
    keys => %s::text[], unique_for => %s::interval, unique_while => %s, user_id => %s, version => %s::smallint,
    queue => %s, concurrency_keys => %s::text[])
"""
NOT_INSTALLED = {"3F000", "42883"}  # no such schema, no such function
NOT_ALLOWED = "42501"
FAILED_BEFORE = "25P02"


def enqueue(connection: Any, tenant: str, jobs: Sequence[NewJob], *, keyed: bool, user: str | None) -> list[Enqueued]:
    """Enqueue jobs that differ in payload and keys only, by one statement; raises NotEnqueued.

    `keyed` states that the handler makes concurrency keys, so that a job without one is meant to have none.
    """
    if not jobs:
        return []
    first = jobs[0]
    lines = [job.concurrency_key for job in jobs]
    given = (
        tenant,
        first.type,
        as_text([job.payload for job in jobs]),
        first.run_at,
        first.run_in,
        first.priority.word,
        None if first.idempotency_key is None else [job.idempotency_key for job in jobs],
        first.unique_for,
        first.unique_while,
        user,
        first.version,
        first.queue,
        lines if keyed or any(lines) else None,
    )
    rows = answers(connection, ENQUEUE, given)
    return [Enqueued(as_uuid(job_id), is_new) for job_id, is_new in rows]


def as_uuid(value: Any) -> UUID:
    """Return an id; some drivers of SQLAlchemy return ids as text."""
    return value if isinstance(value, UUID) else UUID(str(value))


def as_text(payload: Any) -> str:
    """Return a payload as JSON; raises NotEnqueued."""
    try:
        return json.dumps(payload, allow_nan=False)
    except ValueError as problem:
        raise NotEnqueued(f"the payload is not JSON: {problem}") from None


def answers(connection: Any, statement: LiteralString, asked: tuple[Any, ...]) -> Sequence[Any]:
    """Run a statement on a connection of the application; raises NotEnqueued for a refusal by Turno."""
    ask = _asking(connection)
    try:
        return ask(statement, asked)
    except Exception as error:
        # SQLAlchemy hands on the driver's error within its own.
        cause = getattr(error, "orig", None) or error
        refusal = _refusal(cause) if isinstance(cause, psycopg.Error) else None
        if refusal is None:
            raise
        raise NotEnqueued(refusal) from error


def _asking(connection: Any) -> Ask:
    """Return the function that runs a statement on this connection, inside the transaction of its owner."""
    if hasattr(connection, "get_bind") and not inspect.iscoroutinefunction(connection.connection):
        connection = connection.connection()  # of a session of SQLAlchemy's
    if isinstance(connection, psycopg.Connection):

        def ask(statement: LiteralString, parameters: tuple[Any, ...]) -> Sequence[Any]:
            with connection.cursor(row_factory=tuple_row) as cursor:
                return cursor.execute(statement, parameters).fetchall()

        return ask
    execute = getattr(connection, "exec_driver_sql", None)
    if execute is None or inspect.iscoroutinefunction(execute):
        raise TypeError(
            "turno.enqueue takes a psycopg 3 Connection, or a Connection or Session of SQLAlchemy, not"
            f" {type(connection).__module__}.{type(connection).__qualname__}; for an asynchronous one use its run_sync"
        )
    return lambda statement, parameters: execute(statement, parameters).fetchall()


def _refusal(error: psycopg.Error) -> str | None:
    """Return a refusal of Turno with its remedy; None for an error of another origin."""
    problem, hint = error.diag.message_primary, error.diag.message_hint
    if (error.sqlstate or "").startswith("TU"):
        return f"{problem}: {hint}"
    if error.sqlstate == NOT_ALLOWED:
        if hint is not None:
            return f"{problem}: {hint}"
        return f"{problem}: this connection's role may not enqueue; `turno host add ROLE` lets it"
    if error.sqlstate in NOT_INSTALLED:
        return f"{problem}: Turno is not in this database, or older than its library; run `turno db migrate`"
    if error.sqlstate == FAILED_BEFORE:
        return "this transaction failed before, and keeps nothing: roll it back, then enqueue"
    return broken_limit(error)
