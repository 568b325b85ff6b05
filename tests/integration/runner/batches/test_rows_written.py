"""A short job that succeeds at once writes few rows; its history is complete without separate rows."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.batch_in_process import claim_batches_in_process, execute_batch_in_process
from tests.integration.runner.batches.batch import put
from tests.misbehaving_handlers import FaultyAlone, FaultyBatched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation
    from turno.jobs.handler import JobHandler

COUNT_ROWS = """
CREATE TABLE rows_written (relation text, command text);
CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS 'BEGIN INSERT INTO rows_written VALUES (TG_TABLE_NAME, TG_OP); RETURN NULL; END';
DO $$ DECLARE relation regclass; BEGIN
    FOR relation IN SELECT oid FROM pg_class
                    WHERE relkind = 'r' AND relnamespace IN (current_schema()::regnamespace, 'turno'::regnamespace)
                      AND relname <> 'rows_written' LOOP
        EXECUTE format('CREATE TRIGGER note_row AFTER INSERT OR UPDATE OR DELETE ON %%s'
                       ' FOR EACH ROW EXECUTE FUNCTION note_row()', relation);
    END LOOP;
END $$
"""
JOBS = 8
JOB_AND_TICKET = {
    ("background_jobs", "INSERT"): JOBS,
    ("tickets", "INSERT"): JOBS,
    ("tickets", "UPDATE"): JOBS,
    ("tickets", "DELETE"): JOBS,
    ("background_jobs", "UPDATE"): JOBS,
}
# The outcome, at most a row each before it is counted.
STATISTICS = JOBS


@pytest.mark.parametrize("handler", [FaultyBatched, FaultyAlone])
def test_a_short_job_writes_its_own_row_and_its_ticket_only(
    example: ExampleInstallation, handler: type[JobHandler[object]]
) -> None:
    with rows_written(example) as written:
        jobs = [example.enqueue({"how": "transaction", "text": ""}, handler=handler) for _ in range(JOBS)]
        for claims in claim_batches_in_process(example):
            execute_batch_in_process(example, claims)
    assert {example.job(job_id)["status"] for job_id in jobs} == {"completed"}
    statistics = written.total() - sum(JOB_AND_TICKET.values())
    assert {written[name] for name in JOB_AND_TICKET} == {JOBS}
    assert statistics <= STATISTICS, written


def test_the_history_of_a_brief_job_is_complete(example: ExampleInstallation) -> None:
    brief, failed = put(example, "ok", "permanent")
    for claims in claim_batches_in_process(example):
        execute_batch_in_process(example, claims)
    job = example.job(brief)
    began, ended = example.rows("SELECT * FROM background_job_events WHERE job_id = %s ORDER BY id", brief)
    assert (began["old_status"], began["new_status"], began["at"]) == (None, "pending", job["created_at"])
    assert (ended["old_status"], ended["new_status"], ended["at"]) == ("pending", "completed", job["finished_at"])
    (attempt,) = example.rows("SELECT * FROM background_job_attempts WHERE job_id = %s", brief)
    assert (attempt["attempt"], attempt["worker"], attempt["outcome"]) == (1, "test", "completed")
    assert (attempt["started_at"], attempt["finished_at"]) == (job["started_at"], job["finished_at"])
    recorded = "SELECT new_status FROM background_job_event_rows WHERE job_id = %s ORDER BY id"
    assert example.rows(recorded, brief) == []
    assert [row["new_status"] for row in example.rows(recorded, failed)] == ["running", "failed"]


@contextmanager
def rows_written(example: ExampleInstallation) -> Iterator[Counter[tuple[str, str]]]:
    """Count the rows written by table and command, except rows of workers and of business tables."""
    counts: Counter[tuple[str, str]] = Counter()
    example.rows(COUNT_ROWS)
    try:
        yield counts
        counts.update({
            (row["relation"], row["command"]): row["n"]
            for row in example.rows("SELECT relation, command, count(*) AS n FROM rows_written"
                                    " WHERE relation NOT IN ('workers', 'leases', 'customers') GROUP BY 1, 2")
        })  # fmt: skip
    finally:
        example.rows("DROP FUNCTION note_row() CASCADE; DROP TABLE rows_written")
