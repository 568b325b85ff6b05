"""The end of a job is one transaction: if a part of it is refused, nothing of the work stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.demo.invoices import InvoiceIntegrity, check_invoices
from tests.attempt_in_process import attempt
from tests.installation import ExampleInstallation


@pytest.fixture
def refusing(example: ExampleInstallation) -> Iterator[ExampleInstallation]:
    """A tenant with outcomes that the server refuses until the test permits them again."""
    example.rows("ALTER TABLE turno.outcome_batches ADD CONSTRAINT refused CHECK (outcome <> 'completed') NOT VALID")
    yield example
    example.rows("ALTER TABLE turno.outcome_batches DROP CONSTRAINT IF EXISTS refused")


def test_refused_outcome_rolls_back_the_last_work(refusing: ExampleInstallation) -> None:
    job_id = refusing.enqueue({"order_ids": refusing.order_ids()})
    job = attempt(refusing, job_id)
    assert (job["status"], job["errors"], job["error"]["class"]) == ("pending", 1, "CheckViolation")
    committed = refusing.rows("SELECT count(*) AS n FROM background_job_items WHERE state = 'done'")
    # Committed chunks stay, each with its record; the rows of the final commit are gone.
    assert refusing.rows("SELECT count(*) AS n FROM invoices") == committed
    refusing.rows("ALTER TABLE turno.outcome_batches DROP CONSTRAINT refused")
    refusing.time_passes()
    assert attempt(refusing, job_id)["status"] == "completed"
    assert len(refusing.rows("SELECT 1 FROM notifications")) == 1
    assert len(refusing.rows("SELECT 1 FROM invoices")) == len(refusing.order_ids())
    assert check_invoices(refusing.admin) == InvoiceIntegrity(0, 0, 0)
