"""Kill -9 of the supervisor, the child or both at every step of a job's life; then cron repairs the rest."""

from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from cli.demo.invoices import InvoiceIntegrity, check_invoices
from tests.installation import ExampleInstallation
from turno.servers.wait import wait_until
from turno.tenancy.identity.tenant import Tenant

# In the child, where `parent` is its supervisor; chunks are of 50 items, so each batch has several.
CHILD_STEPS = ["started", "chunk_recorded", "chunk_committed", "completing", "completed", "leaving"]
NET_TOTAL = Decimal("1265793.29")


def mend_until_ended(world: ExampleInstallation, jobs: dict[UUID, Tenant]) -> None:
    def ended() -> bool:
        if all(world.job(job_id, tenant=tenant)["finished_at"] for job_id, tenant in jobs.items()):
            return True
        world.time_passes()
        world.sweep()
        return False

    assert wait_until(ended, within=90, every=0.3)
    # One that the sweep launched may stay a while, and would take the next test's job from the worker that is to die.
    assert wait_until(
        lambda: not any(alive(row["pid"]) for row in world.rows("SELECT pid FROM turno.workers")), within=60
    )


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def assert_exactly_once(world: ExampleInstallation, jobs: dict[UUID, Tenant]) -> None:
    net_total = Decimal(0)
    for job_id, tenant in jobs.items():
        job = world.job(job_id, tenant=tenant)
        assert job["status"] == "completed", job
        invoices = world.rows("SELECT order_id, net_total FROM invoices", tenant=tenant)
        assert sorted(row["order_id"] for row in invoices) == world.order_ids(tenant)
        net_total += sum(row["net_total"] for row in invoices)
        assert check_invoices(world.admin) == InvoiceIntegrity(0, 0, 0)  # the path is the tenant's since `rows`
        assert len(world.rows("SELECT 1 FROM notifications", tenant=tenant)) == 1
        ledger = world.rows("SELECT state, count(*) AS n FROM background_job_items GROUP BY state", tenant=tenant)
        assert ledger == [{"state": "done", "n": len(invoices)}]
        open_attempts = world.rows("SELECT 1 FROM background_job_attempts WHERE finished_at IS NULL", tenant=tenant)
        assert open_attempts == []
    assert net_total == NET_TOTAL
    assert world.rows("SELECT 1 FROM turno.tickets") == []


def enqueue_all(world: ExampleInstallation) -> dict[UUID, Tenant]:
    return {
        world.enqueue({"order_ids": world.order_ids(tenant)}, tenant=tenant): tenant
        for tenant in world.tenants.values()
    }


def run_and_mend(world: ExampleInstallation, crash_at: str) -> dict[UUID, Tenant]:
    jobs = enqueue_all(world)
    world.work(next(iter(jobs)), crash_at=crash_at)
    mend_until_ended(world, jobs)
    return jobs


@pytest.mark.parametrize("whom", ["self", "parent", "both"])
@pytest.mark.parametrize("step", CHILD_STEPS)
def test_a_kill_in_the_child_s_life_neither_loses_nor_doubles(
    northwind: ExampleInstallation, step: str, whom: str
) -> None:
    assert_exactly_once(northwind, run_and_mend(northwind, f"{step}:{whom}"))


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
