"""Run a statement of Turno on a connection of the application: in its transaction, under its role, by its driver."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, LiteralString, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from turno.errors import NotEnqueued
from turno.jobs.new_job import Enqueued, NewJob

R = TypeVar("R")
S = TypeVar("S")
Rows = list[tuple[Any, ...]]

# The casts name the types for drivers that send parameters apart; `::` would be a parameter of SQLAlchemy.
ENQUEUE: LiteralString = """
SELECT job_id, is_new FROM turno.enqueue_many(
    tenant => %s, type => %s, payloads => CAST(%s AS jsonb), run_at => CAST(%s AS timestamptz),
    run_in => CAST(%s AS interval), priority => %s, keys => CAST(%s AS text[]), unique_for => CAST(%s AS interval),
    unique_while => %s, user_id => %s, version => CAST(%s AS smallint), queue => %s,
    concurrency_keys => CAST(%s AS text[]))
"""
NOT_INSTALLED = {"3F000", "42883"}  # no such schema, no such function
NOT_ALLOWED = "42501"
FAILED_BEFORE = "25P02"


@dataclass(frozen=True, slots=True)
class Request(Generic[R]):
    """A statement for a connection of the application, and how to read its rows; an empty statement is not sent."""

    statement: LiteralString
    parameters: tuple[Any, ...]
    answer: Callable[[Rows], R]

    def then(self, derive: Callable[[R], S]) -> "Request[S]":
        """Return the same request with an answer that is derived from this answer."""
        return Request(self.statement, self.parameters, lambda rows: derive(self.answer(rows)))

    def send(self, connection: Any) -> R:
        """Run the statement on a synchronous connection; raises NotEnqueued for a refusal by Turno."""
        try:
            return self.answer(self._rows(connection))
        except Exception as error:
            _raise_refusal(error)
            raise

    async def send_async(self, connection: Any) -> R:
        """Run the statement on an asynchronous connection; raises NotEnqueued for a refusal by Turno."""
        try:
            return self.answer(await self._rows_async(connection))
        except Exception as error:
            _raise_refusal(error)
            raise

    def _rows(self, connection: Any) -> Rows:
        if not self.statement:
            return []
        if isinstance(connection, psycopg.Connection):
            with connection.cursor(row_factory=tuple_row) as cursor:
                return cursor.execute(self.statement, self.parameters).fetchall()
        if _of_sqlalchemy(connection) and not _awaits(connection, "execute"):
            return _tuples(connection.execute(*self._for_sqlalchemy()))
        if not callable(getattr(connection, "cursor", None)) or _awaits(connection, "execute"):
            raise TypeError(
                "turno.enqueue takes a connection of psycopg 3, psycopg2 or Django, or a Connection or Session of"
                f" SQLAlchemy, not {_kind(connection)}; for an asynchronous one await turno.enqueue_async"
            )
        with connection.cursor() as cursor:
            cursor.execute(self.statement, self.parameters)
            return _tuples(cursor.fetchall())

    async def _rows_async(self, connection: Any) -> Rows:
        if not self.statement:
            return []
        if isinstance(connection, psycopg.AsyncConnection):
            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(self.statement, self.parameters)
                return await cursor.fetchall()
        if _of_sqlalchemy(connection) and _awaits(connection, "execute"):
            return _tuples(await connection.execute(*self._for_sqlalchemy()))
        if not hasattr(connection, "is_in_transaction"):
            raise TypeError(
                "turno.enqueue_async takes an AsyncConnection of psycopg 3, one of asyncpg, or an AsyncConnection"
                f" or AsyncSession of SQLAlchemy, not {_kind(connection)}; for a synchronous one call turno.enqueue"
            )
        return _tuples(await connection.fetch(self._with_places("${}"), *self.parameters))

    def _for_sqlalchemy(self) -> tuple[Any, dict[str, Any]]:
        from sqlalchemy import text  # noqa: PLC0415 - the caller's connection is SQLAlchemy's

        named = {f"p{number}": value for number, value in enumerate(self.parameters, 1)}
        return text(self._with_places(":p{}")), named

    def _with_places(self, form: str) -> str:
        first, *others = self.statement.split("%s")
        return first + "".join(form.format(number) + part for number, part in enumerate(others, 1))


def enqueue(tenant: str, jobs: Sequence[NewJob], *, keyed: bool, user: str | None) -> Request[list[Enqueued]]:
    """Return the request to enqueue jobs that differ in payload and keys only, by one statement.

    `keyed` states that the handler makes concurrency keys, so that a job without one is meant to have none.
    """
    if not jobs:
        return Request("", (), lambda _: [])
    first = jobs[0]
    lines = [job.concurrency_key for job in jobs]
    parameters = (
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
    return Request(ENQUEUE, parameters, lambda rows: [Enqueued(as_uuid(job_id), is_new) for job_id, is_new in rows])


def as_uuid(value: Any) -> UUID:
    """Return an id; some drivers return ids as text or as a class of their own."""
    return value if type(value) is UUID else UUID(str(value))


def as_text(payload: Any) -> str:
    """Return a payload as JSON; raises NotEnqueued."""
    try:
        return json.dumps(payload, allow_nan=False)
    except ValueError as problem:
        raise NotEnqueued(f"the payload is not JSON: {problem}") from None


def _of_sqlalchemy(connection: Any) -> bool:
    known = any(kind.__module__.startswith("sqlalchemy.") for kind in type(connection).__mro__)
    return known and hasattr(connection, "execute")


def _awaits(connection: Any, method: str) -> bool:
    function = getattr(connection, method, None)
    return callable(function) and inspect.iscoroutinefunction(inspect.unwrap(function))  # a pool of asyncpg wraps it


def _kind(connection: Any) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _tuples(rows: Any) -> Rows:
    return [tuple(row.values() if isinstance(row, Mapping) else row) for row in rows]


def _raise_refusal(error: BaseException) -> None:
    """Raise NotEnqueued if the database refused; the driver's error is within that of SQLAlchemy or Django."""
    cause: Any = error
    while cause is not None and not hasattr(cause, "diag") and not hasattr(cause, "hint"):
        cause = cause.__cause__
    if cause is not None and (refusal := _refusal(cause)) is not None:
        raise NotEnqueued(refusal) from error


def _refusal(error: Any) -> str | None:
    """Return a refusal of Turno with its remedy; None for an error of another origin."""
    diag = getattr(error, "diag", None)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""
    problem, hint = (diag.message_primary, diag.message_hint) if diag else (str(error.args[0]), error.hint)
    if state.startswith("TU"):
        return f"{problem}: {hint}"
    if state == NOT_ALLOWED:
        if hint is not None:
            return f"{problem}: {hint}"
        return f"{problem}: this connection's role may not enqueue; `turno host add ROLE` lets it"
    if state in NOT_INSTALLED:
        return f"{problem}: Turno is not in this database, or older than its library; run `turno db migrate`"
    if state == FAILED_BEFORE:
        return "this transaction failed before, and keeps nothing: roll it back, then enqueue"
    fields = diag or error
    names = (getattr(fields, name, None) for name in ("schema_name", "datatype_name", "data_type_name"))
    schema, *types = names
    return fields.constraint_name if state == "23514" and schema == "turno" and any(types) else None
