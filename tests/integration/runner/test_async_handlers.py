"""Handlers with an asynchronous `handle`: the same transaction, the same promises."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest
from psycopg.pq import TransactionStatus

from tests.attempt_in_process import attempt
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.misdeeds.deed import DEEDS
from turno.jobs.job_context import Done, Effect, JobContext

Deed = Callable[[JobContext, Any], Coroutine[Any, Any, dict[str, Any]]]
INSERT = (
    "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, 'Faulty', 'registered', 'awaited')"
)


@pytest.fixture(autouse=True)
def no_customers(example: ExampleInstallation) -> None:
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


@pytest.fixture
def run(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Callable[[Deed], dict[str, Any]]:
    """Enqueue a job that does this, run one attempt of it and return the job."""

    def run(deed: Deed) -> dict[str, Any]:
        monkeypatch.setitem(DEEDS, "ok", deed)
        return attempt(example, example.enqueue({"how": "ok"}, handler=Faulty))

    return run


def written(example: ExampleInstallation) -> list[str]:
    return [row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'awaited' ORDER BY id")]


async def write(job: JobContext, name: str) -> None:
    await job.async_connection.execute(INSERT, (name,))


def test_writes_commit_with_the_end(example: ExampleInstallation, run: Callable[[Deed], dict[str, Any]]) -> None:
    async def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        await asyncio.gather(*(write(job, f"A{n}") for n in range(3)))
        job.connection.execute(INSERT, ("A3",))  # the same session and transaction
        async with job.async_connection.cursor() as cursor:
            await cursor.execute("SELECT count(*) FROM customers WHERE country = 'awaited'")
            result = await cursor.fetchone()
        assert result is not None
        assert written(example) == []
        return {"seen": result[0]}

    job = run(deed)
    assert (job["status"], job["result"]) == ("completed", {"seen": 4})
    assert written(example) == ["A0", "A1", "A2", "A3"]


def test_an_error_undoes_it_and_ends_its_tasks(
    example: ExampleInstallation, run: Callable[[Deed], dict[str, Any]]
) -> None:
    ended = []

    async def linger(job: JobContext) -> None:
        try:
            await job.async_connection.execute("SELECT pg_sleep(60)")
        finally:
            ended.append(True)

    async def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        await write(job, "A0")
        task = asyncio.create_task(linger(job))
        await asyncio.sleep(0)
        raise ValueError(f"an error beside {task}")

    job = run(deed)
    assert (job["status"], job["errors"], job["error"]["class"]) == ("pending", 1, "ValueError")
    assert (written(example), ended) == ([], [True])


@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
def test_it_must_not_end_its_transaction(
    example: ExampleInstallation, run: Callable[[Deed], dict[str, Any]], ending: str
) -> None:
    async def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        await write(job, "A0")
        await getattr(job.async_connection, ending)()
        return {}

    job = run(deed)
    assert (job["status"], job["error"]["class"], written(example)) == ("failed", "HandlerMisuse", [])


def test_both_objects_at_once_are_refused_by_name(run: Callable[[Deed], dict[str, Any]]) -> None:
    async def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        task = asyncio.create_task(job.async_connection.execute("SELECT pg_sleep(0.2)"))
        while job.connection.info.transaction_status != TransactionStatus.ACTIVE:  # noqa: ASYNC110 - without an event
            await asyncio.sleep(0)
        try:
            job.checkpoint("half")
        finally:
            await task
        return {}

    job = run(deed)
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "await it first" in job["error"]["message"]


def test_ledger_and_checkpoints_keep_finished_work(
    example: ExampleInstallation, run: Callable[[Deed], dict[str, Any]]
) -> None:
    async def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        for step in job.each(range(4), chunk=2):
            with step as item:
                await write(job, f"A{item.value}")
                if item.value == 1:
                    raise ValueError("this one alone")
        job.checkpoint("all items")
        await write(job, "A9")
        raise ValueError("after its checkpoint")

    job = run(deed)
    assert (job["status"], job["error"]["class"]) == ("pending", "ValueError")
    assert written(example) == ["A0", "A2", "A3"]


def test_an_outside_effect_is_awaited_and_happens_once(
    example: ExampleInstallation, run: Callable[[Deed], dict[str, Any]]
) -> None:
    calls: list[str] = []

    async def call(effect: Effect) -> dict[str, Any]:
        await asyncio.sleep(0)
        calls.append(effect.key)
        if len(calls) == 1:
            raise TimeoutError("no answer")
        return {"granted": 1}

    async def reconcile(_effect: Effect) -> Done:
        await asyncio.sleep(0)
        return Done({"granted": 2})

    async def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        return {"answer": await job.once("pay", call, reconcile)}

    job = run(deed)
    assert (job["status"], job["errors"]) == ("pending", 1)
    again: UUID = job["id"]
    assert attempt(example, again)["result"] == {"answer": {"granted": 2}}
    assert calls == ["pay"]


def test_an_outside_call_cannot_use_the_database_meanwhile(run: Callable[[Deed], dict[str, Any]]) -> None:
    async def deed(job: JobContext, _payload: object) -> dict[str, Any]:
        async def call(_effect: Effect) -> None:
            await write(job, "A0")

        return {"answer": await job.once("pay", call)}

    assert run(deed)["error"]["class"] == "HandlerMisuse"


def test_sync_handler_may_not_return_an_awaitable(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call(_effect: Effect) -> None:
        await asyncio.sleep(60)

    monkeypatch.setitem(DEEDS, "ok", lambda job, _payload: {"answer": job.once("pay", call)})
    job = attempt(example, example.enqueue({"how": "ok"}, handler=Faulty))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
