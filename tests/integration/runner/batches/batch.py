"""Enqueue, claim and run batches of jobs in the test's own process, and take them away again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from tests import attempt_steps
from tests.batch_in_process import claim_batches_in_process, execute_batch_in_process
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import FaultyBatched
from turno.jobs.job import Batch, Claim
from turno.runner.session import HandlerConnection
from turno.tenancy.identity.session import handler_session


def put(example: ExampleInstallation, *deeds: str, **options: Any) -> list[UUID]:
    """Enqueue a job for each deed; each makes a customer named for its place first."""
    return [
        example.enqueue({"how": how, "text": f"G{n}"}, handler=FaultyBatched, **options) for n, how in enumerate(deeds)
    ]


def claim(example: ExampleInstallation) -> Batch:
    (claims,) = claim_batches_in_process(example)
    return claims


def run(example: ExampleInstallation, *deeds: str) -> list[dict[str, Any]]:
    """Run a job for each deed as one batch and return them."""
    jobs = put(example, *deeds)
    claims = claim(example)
    assert [each.job_id for each in claims] == jobs
    execute_batch_in_process(example, claims)
    return [example.job(job_id) for job_id in jobs]


def written(example: ExampleInstallation) -> set[str]:
    return {row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'batched'")}


def start_by_another(example: ExampleInstallation, claims: Sequence[Claim]) -> None:
    """Another worker starts the attempts and works on them."""
    with session(example) as other:
        for each in claims:
            attempt_steps.start(other, each, "another")


def start_and_take_back(example: ExampleInstallation, claims: Batch, blamed: list[UUID]) -> None:
    """Start the batch, then have it taken back as from a dead worker."""
    start_by_another(example, claims)
    for each in claims:
        example.engine.rescue(
            each.login.schema,
            each.job_id,
            each.token,
            cause="a test",
            retry_in=timedelta(0),
            counted=each.job_id in blamed,
        )


@contextmanager
def session(example: ExampleInstallation) -> Iterator[HandlerConnection]:
    """Log in as the handler."""
    connection = handler_session(example.logins, example.handler_login(), application="test", kind=HandlerConnection)
    yield connection
    psycopg.Connection.rollback(connection)
    psycopg.Connection.close(connection)
