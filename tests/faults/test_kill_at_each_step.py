"""Kill -9 of the supervisor, the child or both at every step of a job's life; then cron repairs the rest."""

from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from cli.demo.invoices import InvoiceIntegrity, check_invoices
from tests.installation import ExampleInstallation
from turno.tenancy.identity.tenant import Tenant
from turno.testing.wait import wait_until

# In the child, where `parent` is its supervisor; chunks are of 50 items, so each batch has several.
CHILD_STEPS = ["started", "chunk_recorded", "chunk_committed", "completing", "completed", "leaving"]
NET_TOTAL = Decimal("1265793.29")


def mend_until_ended(example: ExampleInstallation, jobs: dict[UUID, Tenant]) -> None:
    def ended() -> bool:
        if all(example.job(job_id, tenant=tenant)["finished_at"] for job_id, tenant in jobs.items()):
            return True
        example.time_passes()
        example.sweep()
        return False

    assert wait_until(ended, within=90, every=0.3)
    # One that the sweep launched may stay a while, and would take the next test's job from the worker that is to die.
    assert wait_until(
        lambda: not any(alive(row["pid"]) for row in example.rows("SELECT pid FROM turno.workers")), within=60
    )


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def assert_exactly_once(example: ExampleInstallation, jobs: dict[UUID, Tenant]) -> None:
    net_total = Decimal(0)
    for job_id, tenant in jobs.items():
        job = example.job(job_id, tenant=tenant)
        assert job["status"] == "completed", job
        invoices = example.rows("SELECT order_id, net_total FROM invoices", tenant=tenant)
        assert sorted(row["order_id"] for row in invoices) == example.order_ids(tenant)
        net_total += sum(row["net_total"] for row in invoices)
        assert check_invoices(example.admin) == InvoiceIntegrity(0, 0, 0)  # the path is the tenant's since `rows`
        assert len(example.rows("SELECT 1 FROM notifications", tenant=tenant)) == 1
        ledger = example.rows("SELECT state, count(*) AS n FROM background_job_items GROUP BY state", tenant=tenant)
        assert ledger == [{"state": "done", "n": len(invoices)}]
        open_attempts = example.rows("SELECT 1 FROM background_job_attempts WHERE finished_at IS NULL", tenant=tenant)
        assert open_attempts == []
    assert net_total == NET_TOTAL
    assert example.rows("SELECT 1 FROM turno.tickets") == []


def enqueue_all(example: ExampleInstallation) -> dict[UUID, Tenant]:
    return {
        example.enqueue({"order_ids": example.order_ids(tenant)}, tenant=tenant): tenant
        for tenant in example.tenants.values()
    }


def run_and_mend(example: ExampleInstallation, crash_at: str) -> dict[UUID, Tenant]:
    jobs = enqueue_all(example)
    example.work(next(iter(jobs)), crash_at=crash_at)
    mend_until_ended(example, jobs)
    return jobs


@pytest.mark.parametrize("target", ["self", "parent", "both"])
@pytest.mark.parametrize("step", CHILD_STEPS)
def test_a_kill_in_the_child_s_life_neither_loses_nor_doubles(
    northwind: ExampleInstallation, step: str, target: str
) -> None:
    assert_exactly_once(northwind, run_and_mend(northwind, f"{step}:{target}"))


def test_a_kill_in_a_later_chunk_keeps_the_earlier_ones(northwind: ExampleInstallation) -> None:
    jobs = enqueue_all(northwind)
    log = northwind.work(next(iter(jobs)), crash_at="chunk_recorded:self:7")
    mend_until_ended(northwind, jobs)
    assert_exactly_once(northwind, jobs)
    assert northwind.job(next(iter(jobs)))["crashes"] == 1, log


def test_supervisor_killed_after_claim_costs_nothing(northwind: ExampleInstallation) -> None:
    jobs = run_and_mend(northwind, "claimed")
    assert_exactly_once(northwind, jobs)
    assert northwind.job(next(iter(jobs)))["crashes"] == 0


def test_jobs_that_were_accepted_and_never_launched_are_found(northwind: ExampleInstallation) -> None:
    jobs = enqueue_all(northwind)
    mend_until_ended(northwind, jobs)
    assert_exactly_once(northwind, jobs)
