"""Sessions of SQLAlchemy on a job's connection, in the job's transaction; requires SQLAlchemy 2."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from turno.errors import HandlerMisuse
from turno.jobs.job_context import JobContext

__all__ = ["async_orm_session", "orm_session"]


@contextmanager
def orm_session(job: JobContext, **options: Any) -> Iterator[Session]:
    """Give a session that works in the job's transaction; `options` are options of `Session`.

    Its commit releases a savepoint, its rollback returns to a savepoint: the changes are committed together with the
    job's record, and no earlier. At the end it is committed, or after an error rolled back.
    """
    token = _JOB.set(JobConnection(job.connection))
    try:
        connection = _engine().connect()
    finally:
        _JOB.reset(token)
    connection.begin()
    with Session(connection, join_transaction_mode="create_savepoint", **options) as session:
        yield session
        session.commit()


@asynccontextmanager
async def async_orm_session(job: JobContext, **options: Any) -> AsyncIterator[AsyncSession]:
    """Give the same for a handler with an asynchronous `handle`; `options` are options of `AsyncSession`."""
    token = _ASYNC_JOB.set(AsyncJobConnection(job.async_connection))
    try:
        connection = await _async_engine().connect()
    finally:
        _ASYNC_JOB.reset(token)
    async with aclosing(connection):
        await connection.begin()
        async with AsyncSession(connection, join_transaction_mode="create_savepoint", **options) as session:
            yield session
            await session.commit()


class JobConnection:
    """A job's connection as SQLAlchemy sees it, which may neither commit nor end it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def rollback(self) -> None:
        """Do nothing: SQLAlchemy calls it after its first look at a server, and at the end of a connection."""

    def commit(self) -> None:
        """Refuse."""
        raise HandlerMisuse("a handler must not commit; the session's own commit() is meant, not its connection's")

    def close(self) -> None:
        """Do nothing: the session is the worker's."""


class AsyncJobConnection:
    """The same for SQLAlchemy's asyncio; the connection itself refuses a commit."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def rollback(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


_JOB: ContextVar[JobConnection] = ContextVar("_JOB")
_ASYNC_JOB: ContextVar[AsyncJobConnection] = ContextVar("_ASYNC_JOB")
# SQLAlchemy would look for the types of hstore in the catalog, with a connection other than psycopg's; the pool keeps
# and resets no connection.
OPTIONS: dict[str, Any] = {"use_native_hstore": False, "poolclass": NullPool, "pool_reset_on_return": None}


@cache
def _engine() -> Engine:
    return create_engine("postgresql+psycopg://", creator=_JOB.get, **OPTIONS)


@cache
def _async_engine() -> AsyncEngine:
    async def connection() -> Any:
        return _ASYNC_JOB.get()

    return create_async_engine("postgresql+psycopg://", async_creator=connection, **OPTIONS)
