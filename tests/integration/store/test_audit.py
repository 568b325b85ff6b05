"""The audit of transitions is written once a statement, for each job that it moved and for no other."""

from __future__ import annotations

from tests.installation import ExampleInstallation

MOVE = """
UPDATE background_jobs SET status = CASE WHEN id = ANY (%s) THEN 'cancelled' ELSE status END, reason = 'by hand',
       finished_at = CASE WHEN id = ANY (%s) THEN clock_timestamp() END
"""
TRAIL = "SELECT old_status, new_status, reason FROM background_job_events WHERE job_id = %s ORDER BY id"


def test_a_statement_s_transitions_are_audited_and_nothing_else(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"order_ids": [1]}) for _ in range(4)]
    moved = jobs[:3]
    example.rows(MOVE, moved, moved, tenant=example.one)
    began = {"old_status": None, "new_status": "pending", "reason": None}
    ended = {"old_status": "pending", "new_status": "cancelled", "reason": "by hand"}
    trails = [example.rows(TRAIL, job_id, tenant=example.one) for job_id in jobs]
    assert trails == [[began, ended]] * 3 + [[began]]
