"""The end of a job is one transaction: if a part of it is refused, nothing of the work stays, and nobody is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from handlers.services.invoice_integrity import InvoiceIntegrity, check_invoices
from tests.attempt_here import attempt
from tests.installation import ExampleInstallation


@pytest.fixture
def deaf(world: ExampleInstallation) -> Iterator[ExampleInstallation]:
    """A tenant whose notifications are refused by the server until the test lets them in again."""
    world.rows("ALTER TABLE notifications ADD CONSTRAINT deaf CHECK (false) NOT VALID")
    yield world
    world.rows("ALTER TABLE notifications DROP CONSTRAINT IF EXISTS deaf")


def test_a_notification_that_is_refused_takes_the_last_piece_of_work_with_it(deaf: ExampleInstallation) -> None:
    job_id = deaf.enqueue({"order_ids": deaf.order_ids()})
    job = attempt(deaf, job_id)
    assert (job["status"], job["errors"], job["error"]["class"]) == ("pending", 1, "CheckViolation")
    committed = deaf.rows("SELECT count(*) AS n FROM background_job_items WHERE state = 'done'")
    # What chunks have committed stays, each with its record; what was to commit with the end is gone.
    assert deaf.rows("SELECT count(*) AS n FROM invoices") == committed
    deaf.rows("ALTER TABLE notifications DROP CONSTRAINT deaf")
    deaf.time_passes()
    assert attempt(deaf, job_id)["status"] == "completed"
    assert len(deaf.rows("SELECT 1 FROM notifications")) == 1
    assert len(deaf.rows("SELECT 1 FROM invoices")) == len(deaf.order_ids())
    assert check_invoices(deaf.admin) == InvoiceIntegrity(0, 0, 0)
