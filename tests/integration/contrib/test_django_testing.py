"""Tests of an application read the jobs that its code enqueues, in a database without Turno."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection, connections, transaction
from django.test import TestCase, TransactionTestCase
from psycopg.conninfo import conninfo_to_dict

import turno
from tests.integration.contrib.customers import Customer
from turno import JobContext, JobHandler
from turno.contrib.django.testing import enqueued_jobs
from turno.testing.servers import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.servers.embedded_postgres import Cluster


@dataclass(frozen=True, slots=True)
class Letter:
    """The customer that the letter is for."""

    customer: str


class SendLetter(JobHandler[Letter]):
    """A job of the application."""

    type = "send_letter"
    other_queues = ("night",)

    def handle(self, job: JobContext, payload: Letter) -> dict[str, str]:
        raise NotImplementedError


@pytest.fixture(autouse=True, scope="module")
def database(cluster: Cluster) -> Iterator[None]:
    before = connections.settings["default"]
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    with fresh_database(cluster) as url:
        parts = conninfo_to_dict(url)
        connections.settings["default"] = before | {name: parts.get(part, "") for name, part in names.items()}
        del connections["default"]
        with connection.schema_editor() as editor:
            editor.create_model(Customer)
        yield
        connection.close()
    connections.settings["default"] = before
    del connections["default"]


def order(customer: str, *, refuse: bool = False, **options: object) -> turno.Enqueued:
    """The view of an application: a row and its job, in one transaction."""
    with transaction.atomic():
        Customer.objects.get_or_create(id=customer, company_name=customer)
        job = turno.enqueue(connection, "suc0001", SendLetter, customer=customer, **options)  # type: ignore[arg-type]
        if refuse:
            raise ValueError("refused")
    return job


class InATransaction(TestCase):  # type: ignore[misc]
    def test_jobs_are_read_with_their_options(self) -> None:
        later = datetime.now(UTC) + timedelta(days=1)
        with enqueued_jobs() as jobs:
            first = order("Ana", key="june", run_at=later, priority="urgent", user="bea", concurrency_key="printer")
            order("Bea", run_in=60, queue="night")
        assert [(job.tenant, job.type, job.payload["customer"]) for job in jobs] == [
            ("suc0001", "send_letter", "Ana"), ("suc0001", "send_letter", "Bea"),
        ]  # fmt: skip
        ana, bea = jobs
        assert (ana.job_id, ana.key, ana.run_at, ana.run_in) == (first.job_id, "june", later, None)
        assert (ana.priority, ana.user, ana.queue, ana.concurrency_key) == ("urgent", "bea", "hot", "printer")
        assert (bea.key, bea.run_at, bea.run_in) == (None, None, timedelta(minutes=1))
        assert (bea.priority, bea.user, bea.queue, bea.concurrency_key) == ("normal", None, "night", None)

    def test_jobs_of_a_rolled_back_savepoint_are_left_out(self) -> None:
        with enqueued_jobs() as jobs:
            with pytest.raises(ValueError, match="refused"):
                order("Ana", refuse=True)
            order("Bea")
        assert [job.payload["customer"] for job in jobs] == ["Bea"]

    def test_repeated_key_is_one_job(self) -> None:
        with enqueued_jobs() as jobs:
            keyed = [order("Ana", key="june"), order("Ana", key="june")]
            unique = [order("Ana", unique_for="open"), order("Ana", unique_for="open"), order("Bea", unique_for=60)]
        assert [job.is_new for job in (*keyed, *unique)] == [True, False, True, False, True]
        assert [job.job_id for job in jobs] == [keyed[0].job_id, unique[0].job_id, unique[2].job_id]

    def test_many_jobs_are_read_in_their_order(self) -> None:
        names = ["Ana", "Bea", "Ciro"]
        with enqueued_jobs() as jobs:
            made = turno.enqueue_many(connection, "suc0002", SendLetter, [Letter(name) for name in names], keys=names)
        assert [(job.job_id, job.key) for job in jobs] == [
            *zip((submitted.job_id for submitted in made), names, strict=True)
        ]

    def test_invalid_payload_is_refused(self) -> None:
        with enqueued_jobs() as jobs, pytest.raises(turno.InvalidPayload, match="customer"):
            turno.enqueue(connection, "suc0001", SendLetter, customer=1)
        assert jobs == []

    def test_enqueue_outside_of_the_block_reaches_turno(self) -> None:
        with pytest.raises(turno.NotEnqueued, match="Turno is not in this database"):
            order("Ana")


class Committed(TransactionTestCase):  # type: ignore[misc]
    available_apps = ("turno.contrib.django",)

    def test_jobs_of_a_rolled_back_transaction_are_left_out(self) -> None:
        for _ in range(2):
            with enqueued_jobs() as jobs:
                with pytest.raises(ValueError, match="refused"):
                    order("Ana", refuse=True)
                order("Bea")
            assert [job.payload["customer"] for job in jobs] == ["Bea"]
