"""A submission's uniqueness, concurrency keys and queues, by each way in."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

import turno
from handlers.batch_invoicing import BatchInvoicing, BatchInvoicingPayload
from tests.fakes import RecordingQueue
from tests.installation import ExampleInstallation
from tests.integration.dispatch.test_enqueue_from_anywhere import ORDERS, OTHERS, enqueue_in_list, erp, role, url
from turno.capabilities.schedules.firing import fire_due
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.capabilities.schedules.stored import Schedules
from turno.dispatch.dispatcher import Dispatcher
from turno.errors import NotEnqueued
from turno.jobs.new_job import NewJob
from turno.maintenance.each_tenant import EachTenant
from turno.testing.wait import wait_until

__all__ = ["erp", "role", "url"]

Erp = psycopg.Connection[Any]
WAYS = pytest.mark.parametrize("enqueue", [turno.enqueue, enqueue_in_list], ids=["one", "many"])


class Keyed(BatchInvoicing):
    """Jobs of a point of sale run one after another; urgent jobs may wait in a separate queue."""

    other_queues = ("hot",)

    @classmethod
    def concurrency_key(cls, payload: BatchInvoicingPayload) -> str | None:
        return f"pos {payload.point_of_sale}" if payload.point_of_sale < 9 else None


@pytest.fixture
def announced(example: ExampleInstallation) -> Iterator[None]:
    """The database knows that the type has keys and two queues."""
    reply = "UPDATE turno.handlers SET keyed = cardinality(%s::text[]) > 0, other_queues = %s"
    example.rows(reply, ["hot"], ["hot"])
    yield
    example.rows(reply, [], [])


def end(example: ExampleInstallation, job_id: UUID) -> None:
    assert example.cancel(job_id) == "cancelled"


@WAYS
def test_unique_while_it_is_open(example: ExampleInstallation, erp: Erp, enqueue: Any) -> None:
    def again() -> turno.Enqueued:
        answer: turno.Enqueued = enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for="open")
        erp.commit()
        return answer

    first = again()
    assert again() == (first.job_id, False)
    end(example, first.job_id)
    continued = example.retry(first.job_id)["job_id"]
    assert again() == (continued, False)
    end(example, continued)
    second = again()
    assert second.is_new
    assert again() == (second.job_id, False)
    # Of three jobs under the key one is open, also after retries.
    assert [example.retry(job)["verdict"] for job in (first.job_id, continued)] == ["replayed", "not_retryable"]
    end(example, second.job_id)
    assert example.retry(continued)["verdict"] == "accepted"
    assert example.retry(second.job_id)["verdict"] == "not_retryable"


def test_two_at_once_retry_and_enqueue_one_key(example: ExampleInstallation, erp: Erp) -> None:
    """The retry waits for the submission of the same key that has not committed, and finds it."""
    first = turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for="open")
    erp.commit()
    end(example, first.job_id)
    assert turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for="open").is_new
    with ThreadPoolExecutor(1) as thread:
        retried = thread.submit(example.retry, first.job_id)
        waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        assert wait_until(lambda: retried.done() or example.admin.execute(waits).fetchall() != [], within=30)
        erp.commit()
        assert retried.result()["verdict"] == "not_retryable"
    assert len(example.rows("SELECT FROM background_jobs WHERE finished_at IS NULL")) == 1


def test_a_key_of_a_kept_job_is_free_for_unique_while_open(example: ExampleInstallation, erp: Erp) -> None:
    first = turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for=3600)
    erp.commit()
    end(example, first.job_id)
    assert turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for="open").is_new


@WAYS
@pytest.mark.parametrize("key", ["june", None])
def test_unique_for_ever(example: ExampleInstallation, erp: Erp, enqueue: Any, key: str | None) -> None:
    first = enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key=key, unique_for="for ever")
    erp.commit()
    end(example, first.job_id)
    example.rows("UPDATE background_jobs SET finished_at = finished_at - interval '1 year', created_at = '2020-01-01'")
    assert example.engine.purge(example.one.schema, older_than=timedelta(days=30), limit=10) == 1
    # A later request may name another lifetime: the key keeps the job's own.
    for lasting in ("for ever", "open", 1.0):
        assert enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key=key, unique_for=lasting) == (first.job_id, False)
    if key is not None:
        with pytest.raises(NotEnqueued, match="stands for another request"):
            enqueue(erp, "suc0001", "batch_invoicing", OTHERS, key=key)


def test_another_word_is_refused(erp: Erp) -> None:
    with pytest.raises(NotEnqueued, match="use seconds, 'open' or 'for ever'"):
        turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for="ever")
    with pytest.raises(psycopg.Error, match="unique_while 'ever' is none"):
        erp.execute("SELECT turno.enqueue('suc0001', 'batch_invoicing', unique_while => 'ever')")


@pytest.mark.usefixtures("announced")
@WAYS
def test_the_handler_makes_the_key_of_the_payload(example: ExampleInstallation, erp: Erp, enqueue: Any) -> None:
    for point in (1, 2, 9):
        enqueue(erp, "suc0001", Keyed, {"order_ids": [1], "point_of_sale": point})
    erp.commit()
    rows = example.rows(
        "SELECT t.concurrency_key, j.concurrency_key AS kept FROM background_jobs j JOIN turno.tickets t"
        " ON t.job_id = j.id ORDER BY j.id"
    )
    assert [tuple(row.values()) for row in rows] == [("pos 1", "pos 1"), ("pos 2", "pos 2"), (None, None)]


@pytest.mark.usefixtures("announced")
def test_the_caller_may_name_another_key_or_none(example: ExampleInstallation, erp: Erp) -> None:
    for named in ("mine", ""):
        turno.enqueue(erp, "suc0001", Keyed, ORDERS, concurrency_key=named)
    erp.commit()
    rows = example.rows("SELECT concurrency_key FROM background_jobs ORDER BY id")
    assert [row["concurrency_key"] for row in rows] == ["mine", None]
    with pytest.raises(NotEnqueued, match="longer than 255 bytes"):
        turno.enqueue(erp, "suc0001", Keyed, ORDERS, concurrency_key="ñ" * 128)


@pytest.mark.usefixtures("announced")
@pytest.mark.parametrize(
    "call", ["turno.enqueue('suc0001', 'batch_invoicing')", "turno.enqueue_many('suc0001', 'batch_invoicing', '[{}]')"]
)
def test_sql_that_does_not_know_the_key_of_a_type_is_refused(erp: Erp, call: str) -> None:
    with pytest.raises(psycopg.Error, match="takes turns with others of its concurrency_key"):
        erp.execute(f"SELECT {call}".encode())


@pytest.mark.usefixtures("announced")
@WAYS
def test_a_submission_chooses_among_its_types_queues(example: ExampleInstallation, erp: Erp, enqueue: Any) -> None:
    enqueue(erp, "suc0001", Keyed, ORDERS, queue="hot")
    enqueue(erp, "suc0001", Keyed, ORDERS)
    erp.commit()
    rows = example.rows(
        "SELECT j.queue, t.queue AS waits FROM background_jobs j JOIN turno.tickets t ON t.job_id = j.id ORDER BY j.id"
    )
    assert [tuple(row.values()) for row in rows] == [("hot", "hot"), ("cold", "cold")]
    with pytest.raises(NotEnqueued, match="do not wait in the queue 'other': choose one of cold, hot"):
        enqueue(erp, "suc0001", Keyed, ORDERS, queue="other")
    with pytest.raises(psycopg.Error, match="do not wait in the queue 'other'"):
        erp.execute("SELECT turno.enqueue('suc0001', 'batch_invoicing', queue => 'other', concurrency_key => '')")


def test_post_takes_them_too(example: ExampleInstallation) -> None:
    dispatcher = Dispatcher(connection=lambda: nullcontext(example.web), queue=RecordingQueue(), pending_limit=9)
    wanted = NewJob.of(Keyed, {"order_ids": [1], "point_of_sale": 1}, user_id="ana", unique_for="open", queue="hot")
    first, second = (dispatcher.submit(example.one, wanted) for _ in range(2))
    assert (first.word, second.word, second.job_id) == ("accepted", "replayed", first.job_id)
    assert first.job_id is not None
    job = example.job(first.job_id)
    assert (job["queue"], job["concurrency_key"]) == ("hot", "pos 1")


@pytest.mark.usefixtures("announced")
def test_jobs_wait_in_the_queue_of_their_tenant(example: ExampleInstallation, erp: Erp) -> None:
    dispatcher = Dispatcher(connection=lambda: nullcontext(example.web), queue=RecordingQueue(), pending_limit=9)
    for number, (queue, waits) in enumerate((("hot", "hot"), ("other", "cold"), (None, "cold"))):
        example.rows("UPDATE turno.tenants SET queue = %s WHERE slug = 'suc0001'", queue)
        turno.enqueue(erp, "suc0001", Keyed, ORDERS)
        erp.commit()
        wanted = NewJob.of(Keyed, {"order_ids": [1], "point_of_sale": 1}, user_id="ana")
        posted = dispatcher.submit(example.one, wanted).job_id
        assert posted is not None
        example.cancel(posted)
        retried = example.retry(posted)["job_id"]
        rule = RecurringJob(name=f"hourly-{number}", handler=Keyed, payload=ORDERS, user_id="ana", every=60)
        assert Schedules(example.web, example.one).save(rule) == "created"
        assert fire_due(example.engine, EachTenant(example.engine)).done > 0
        rows = example.rows("DELETE FROM turno.tickets RETURNING job_id, queue")
        assert retried in {row["job_id"] for row in rows}
        assert len(rows) >= 3
        assert {row["queue"] for row in rows} == {waits}


@pytest.mark.usefixtures("announced")
def test_a_schedules_jobs_have_the_key_of_its_payload(example: ExampleInstallation) -> None:
    every_minute = RecurringJob(name="hourly", handler=Keyed, payload=ORDERS, user_id="ana", every=60)
    assert Schedules(example.web, example.one).save(every_minute) == "created"
    link = example.engine
    assert fire_due(link, EachTenant(link)).done > 0
    rows = example.rows("SELECT concurrency_key, state FROM turno.tickets")
    assert {(row["concurrency_key"], row["state"]) for row in rows} == {("pos 1", "scheduled")}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"key_limit": 0}, "key_limit must be from 1 to 1000"),
        ({"key_rate": (1, 0)}, "key_rate must be from 1 to 1000 jobs"),
        ({"other_queues": "hot"}, "other_queues must be a list of names"),
    ],
)
def test_handler_with_invalid_attributes_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        type("Wrong", (BatchInvoicing,), wrong)
