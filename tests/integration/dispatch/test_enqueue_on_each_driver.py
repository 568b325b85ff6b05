"""An application enqueues on a connection of any driver: in its transaction, with the same refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import psycopg2
import psycopg2.extras
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

import turno
from handlers.batch_invoicing import BatchInvoicing
from tests.installation import ExampleInstallation
from tests.integration import contrib
from tests.integration.dispatch.test_enqueue_from_anywhere import ORDERS, OTHERS, role, url

__all__ = ["contrib", "role", "url"]  # `contrib` has configured Django

DRIVERS = [
    "psycopg2",
    "psycopg2 dict",
    "django",
    "django tenants",
    "sqlalchemy psycopg2",
    "sqlalchemy session psycopg2",
]
ASYNC_DRIVERS = [
    "psycopg",
    "asyncpg",
    "sqlalchemy psycopg",
    "sqlalchemy asyncpg",
    "sqlalchemy session psycopg",
    "sqlalchemy session asyncpg",
    "sqlalchemy scoped session asyncpg",
]


def address(url: str, driver: str) -> sqlalchemy.URL:
    """The address for SQLAlchemy, also of a server behind a socket."""
    parts: dict[str, Any] = dict(conninfo_to_dict(url))
    host = {"host": str(parts["host"])} | ({"port": str(parts["port"])} if "port" in parts else {})
    return sqlalchemy.URL.create(
        f"postgresql+{driver}", parts["user"], parts["password"], database=parts["dbname"], query=host
    )


@contextmanager
def connected(name: str, url: str) -> Iterator[Any]:
    """A connection with an open transaction, which the caller ends."""
    with ExitStack() as stack:
        if name.startswith("psycopg2"):
            factory = psycopg2.extras.RealDictCursor if "dict" in name else None
            connection = psycopg2.connect(url, cursor_factory=factory)
            stack.callback(connection.close)
        elif name.startswith("django"):
            from django.db.backends.postgresql.base import DatabaseWrapper  # noqa: PLC0415 - after its settings
            from django_tenants.postgresql_backend.base import DatabaseWrapper as TenantsWrapper  # noqa: PLC0415

            connection = (TenantsWrapper if "tenants" in name else DatabaseWrapper)(django_settings(url))
            stack.callback(connection.close)
            connection.set_autocommit(False)
            if "tenants" in name:
                connection.set_schema("suc0001")
        else:
            engine = sqlalchemy.create_engine(address(url, "psycopg2"))
            stack.callback(engine.dispose)
            connection = stack.enter_context(Session(engine) if "session" in name else engine.connect())
        yield connection


def django_settings(url: str) -> dict[str, Any]:
    parts = conninfo_to_dict(url)
    names = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password", "NAME": "dbname"}
    own = {name: parts.get(part) or "" for name, part in names.items()}
    usual = {"AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}
    return own | usual | {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {}, "TIME_ZONE": None, "TEST": {}}


@asynccontextmanager
async def connected_async(name: str, url: str) -> AsyncIterator[tuple[Any, Callable[[], Awaitable[None]]]]:
    """A connection with an open transaction, and its commit."""
    if name == "psycopg":
        async with await psycopg.AsyncConnection.connect(url) as connection:
            yield connection, connection.commit
    elif name == "asyncpg":
        parts = conninfo_to_dict(url)
        plain = await asyncpg.connect(
            host=parts["host"], port=parts.get("port"), user=parts["user"], password=parts["password"],
            database=parts["dbname"],
        )  # fmt: skip
        transaction = plain.transaction()
        await transaction.start()
        yield plain, transaction.commit
        await plain.close()
    else:
        engine = create_async_engine(address(url, name.rsplit(maxsplit=1)[-1]))
        if "scoped" in name:
            session = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
            yield session, session.commit
            await session.remove()
        else:
            async with AsyncSession(engine) if "session" in name else engine.connect() as of_sqlalchemy:
                yield of_sqlalchemy, of_sqlalchemy.commit
        await engine.dispose()


def jobs(example: ExampleInstallation) -> list[Any]:
    return [row["id"] for row in example.rows("SELECT id FROM background_jobs ORDER BY id")]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_job_is_committed_by_its_caller(example: ExampleInstallation, url: str, driver: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    with connected(driver, url) as connection:
        turno.enqueue(connection, "suc0001", BatchInvoicing, ORDERS)
        connection.rollback()
        assert jobs(example) == []
        first = turno.enqueue(connection, "suc0001", BatchInvoicing, ORDERS, key="june", run_at=later)
        many = turno.enqueue_many(connection, "suc0001", BatchInvoicing, [ORDERS, OTHERS], keys=["a", "b"], run_in=60)
        assert turno.enqueue_many(connection, "suc0001", BatchInvoicing, []) == []
        assert jobs(example) == []
        connection.commit()
    assert jobs(example) == [first.job_id, *(made.job_id for made in many)]
    assert {type(job_id) for job_id in jobs(example)} == {type(first.job_id)}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_refusal_is_not_enqueued(example: ExampleInstallation, url: str, driver: str) -> None:
    refused: dict[str, dict[str, Any]] = {
        "^user has 1 to 255": {"user": ""},
        "1 to 255 letters.*another key$": {"key": "a b"},
    }
    with connected(driver, url) as connection:
        for message, options in refused.items():
            with pytest.raises(turno.NotEnqueued, match=message):
                turno.enqueue(connection, "suc0001", BatchInvoicing, ORDERS, **options)
            with pytest.raises(turno.NotEnqueued, match="failed before"):
                turno.enqueue(connection, "suc0001", BatchInvoicing, ORDERS)
            connection.rollback()
    assert jobs(example) == []


@pytest.mark.parametrize("driver", ASYNC_DRIVERS)
def test_an_awaited_job_is_committed_by_its_caller(example: ExampleInstallation, url: str, driver: str) -> None:
    async def enqueue() -> list[turno.Enqueued]:
        async with connected_async(driver, url) as (connection, commit):
            later = datetime.now(UTC) + timedelta(hours=1)
            with pytest.raises(TypeError, match="await turno"):
                turno.enqueue(connection, "suc0001", BatchInvoicing, ORDERS)
            made = [await turno.enqueue_async(connection, "suc0001", BatchInvoicing, ORDERS, key="june", run_at=later)]
            made += await turno.enqueue_many_async(connection, "suc0001", BatchInvoicing, [ORDERS], run_in=60)
            assert jobs(example) == []
            await commit()
            return made

    assert [made.job_id for made in asyncio.run(enqueue())] == jobs(example)


@pytest.mark.parametrize("driver", ASYNC_DRIVERS)
def test_an_awaited_refusal_is_not_enqueued(example: ExampleInstallation, url: str, driver: str) -> None:
    async def refused(message: str, **options: Any) -> None:
        async with connected_async(driver, url) as (connection, _):
            with pytest.raises(turno.NotEnqueued, match=message):
                await turno.enqueue_async(connection, "suc0001", BatchInvoicing, ORDERS, **options)
            with pytest.raises(turno.NotEnqueued, match="failed before"):
                await turno.enqueue_async(connection, "suc0001", BatchInvoicing, ORDERS)

    asyncio.run(refused("^user has 1 to 255", user=""))
    asyncio.run(refused("1 to 255 letters.*another key$", key="a b"))
    assert jobs(example) == []


@pytest.mark.parametrize("driver", [driver for driver in ASYNC_DRIVERS if driver.startswith("sqlalchemy")])
def test_a_savepoint_keeps_the_transaction_after_a_refusal(example: ExampleInstallation, url: str, driver: str) -> None:
    async def enqueue() -> turno.Enqueued:
        async with connected_async(driver, url) as (connection, commit):
            with pytest.raises(turno.InvalidPayload):
                await turno.enqueue_async(connection, "suc0001", BatchInvoicing, {"order_ids": "all"})
            with pytest.raises(turno.NotEnqueued, match="user has 1 to 255"):
                async with connection.begin_nested():
                    await turno.enqueue_async(connection, "suc0001", BatchInvoicing, ORDERS, user="")
            made = await turno.enqueue_async(connection, "suc0001", BatchInvoicing, ORDERS)
            await commit()
            return made

    assert [asyncio.run(enqueue()).job_id] == jobs(example)


def test_a_pool_is_refused(url: str) -> None:
    async def refused() -> None:
        engine = create_async_engine(address(url, "asyncpg"))
        with pytest.raises(TypeError, match="AsyncEngine; for a synchronous one"):
            await turno.enqueue_async(engine, "suc0001", BatchInvoicing, ORDERS)
        await engine.dispose()

    asyncio.run(refused())
