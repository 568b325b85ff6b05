"""Submit one batch a branch over HTTP and follow them until they have ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from cli.demo.errors import DemoFailed
from cli.demo.progress_bars import Bar, bars_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.client import Client, Job

LOOK_EVERY = 0.2
LONGEST = 600.0


@dataclass(frozen=True, slots=True)
class Batch:
    """One branch's submitted job."""

    client: Client
    job: Job
    orders: int
    dispatch_ms: float

    def bar(self, job: Job) -> Bar:
        """Return the job as a bar."""
        progress = job.progress
        failed = f"{progress['failed']} failed" if progress["failed"] else ""
        note = " ".join(filter(None, (job.status, failed)))
        return Bar(self.client.tenant, progress["done"] + progress["failed"], self.orders, note)


@dataclass(frozen=True, slots=True)
class Run:
    """How long it took: from the first request to the last job's end, and to each 202."""

    jobs: int
    seconds: float
    dispatch_ms: float


def invoice_all(work: Sequence[tuple[Client, Sequence[int]]]) -> Run:
    """Invoice the orders of every branch; raises DemoFailed unless every job completes without a failed order."""
    began = time.monotonic()
    batches = [_submit(client, orders) for client, orders in work]
    jobs = _follow(batches, began + LONGEST)
    seconds = time.monotonic() - began
    for batch, job in zip(batches, jobs, strict=True):
        _demand_success(batch, job)
    return Run(len(batches), seconds, median(batch.dispatch_ms for batch in batches))


def _submit(client: Client, orders: Sequence[int]) -> Batch:
    began = time.perf_counter()
    job = client.submit("batch_invoicing", {"order_ids": list(orders)})
    return Batch(client, job, len(orders), 1000 * (time.perf_counter() - began))


def _follow(batches: Sequence[Batch], until: float) -> list[Job]:
    bars = bars_on()
    while True:
        jobs = [batch.client.get(batch.job) for batch in batches]
        bars.show([batch.bar(job) for batch, job in zip(batches, jobs, strict=True)])
        if all(job.ended for job in jobs):
            return jobs
        if time.monotonic() > until:
            raise DemoFailed(f"jobs are still open after {LONGEST:.0f} s")
        time.sleep(LOOK_EVERY)


def _demand_success(batch: Batch, job: Job) -> None:
    if job.outcome != "completed":
        why = (job.error or {}).get("message") or job.body["reason"] or f"{job.progress['failed']} orders failed"
        raise DemoFailed(f"the job of {batch.client.tenant} is {job.label}: {why}")
