"""Ended jobs as the engine records them: their outcomes, and a dead letter of each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant


def end_jobs(
    example: ExampleInstallation,
    tenant: Tenant,
    job_type: str = "import",
    *,
    failed: int = 0,
    completed: int = 0,
    error: str = "TimeoutError: bank did not answer",
    ago: str = "1 second",
) -> None:
    """End this many jobs of the tenant, and count them."""
    example.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms, at)"
        " SELECT %s, %s, CASE WHEN n <= %s THEN 'failed' ELSE 'completed' END, ARRAY[1], ARRAY[1], now() - %s::interval"
        " FROM generate_series(1, %s) AS n",
        tenant.id, job_type, failed, ago, failed + completed,
    )  # fmt: skip
    example.rows(
        "INSERT INTO turno.dead_letters (job_id, tenant_id, type, error, died_at)"
        " SELECT gen_random_uuid(), %s, %s, %s, now() - %s::interval FROM generate_series(1, %s)",
        tenant.id, job_type, error, ago, failed,
    )  # fmt: skip
    example.rows("SELECT turno.count_outcomes(100000)")


def fail_items(example: ExampleInstallation, tenant: Tenant, *, done: int, failed: int) -> None:
    """End an import with failed items, and count it."""
    example.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms, items_done, items_failed)"
        " VALUES (%s, 'import', 'completed_with_failures', ARRAY[1], ARRAY[1], ARRAY[%s::integer], ARRAY[%s::integer])",
        tenant.id, done, failed,
    )  # fmt: skip
    example.rows(
        "INSERT INTO turno.dead_letters (job_id, tenant_id, type, outcome, error, items_done, items_failed)"
        " VALUES (gen_random_uuid(), %s, 'import', 'completed_with_failures', 'ValueError: bad row', %s, %s)",
        tenant.id, done, failed,
    )  # fmt: skip
    example.rows("SELECT turno.count_outcomes(100000)")


def settle_failures(example: ExampleInstallation) -> None:
    """Close every failure as a replay or a discard does."""
    example.rows("UPDATE turno.dead_letters SET closed_at = now(), closed_as = 'replayed' WHERE closed_at IS NULL")
