"""Kill -9 of the child amid an import: the file is read on, and no line twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imports.data_import import DataImport
from tests.faults.test_kill_at_each_step import mend_until_ended
from tests.integration.imports.test_data_import import ORDERS, order, upload

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

LINES = 1300  # three groups


def test_killed_import_resumes_and_reads_no_line_twice(example: ExampleInstallation) -> None:
    text = "\n".join([ORDERS, *(order(900_000 + n) for n in range(LINES))])
    payload = {"file_id": str(upload(example, text.encode())), "table": "orders"}
    job_id = example.enqueue(payload, handler=DataImport, user_id="ana")
    try:
        example.work(job_id, crash_at="chunk_recorded:self:2")
        mend_until_ended(example, {job_id: example.one})
        job = example.job(job_id)
        assert job["status"] == "completed", job
        assert job["attempt"] > 1
        # A line read twice would be refused the second time: its order is there already.
        ledger = example.rows("SELECT state, count(*) AS n FROM background_job_items GROUP BY state")
        assert ledger == [{"state": "done", "n": LINES}]
        assert example.rows("SELECT count(*) AS n FROM order_lines WHERE order_id >= 900000") == [{"n": LINES}]
    finally:
        example.rows("DELETE FROM order_lines WHERE order_id >= 900000")
        example.rows("DELETE FROM orders WHERE id >= 900000")
