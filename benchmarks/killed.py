"""10,000 attempts of batch_invoicing killed at named steps and at random moments: no invoice doubled or missing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from app.dispatch.dispatcher import Submission, fingerprint
from app.store.enqueue import ENQUEUE, NewJob
from benchmarks.report import Report
from cli.nemesis.stage import open_stage
from cli.testing import processes
from cli.wiring import ROOT
from handlers.batch_invoicing import BatchInvoicing
from handlers.services.invoice_integrity import InvoiceIntegrity, check_invoices
from tenants.session import call_as_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.benchmark import Options
    from cli.nemesis.stage import Stage
    from tenants.tenant import Tenant

KILLS, QUICK_KILLS = 10_000, 60
AT_RANDOM = ""
# Where the attempts of each phase are killed; a chunk is of 50 orders.
PHASES = ("started", "chunk_recorded", "chunk_recorded:self:2", "chunk_committed", "completing", AT_RANDOM)
ORDERS = 120  # a job: three chunks
OPEN_JOBS = 6  # a tenant
LONGEST_LIFE = 0.3  # seconds that a child may work before it is killed at random
SPOTLESS = InvoiceIntegrity(missing_numbers=0, doubled_orders=0, wrong_totals=0)
# The crash budget is reset and the pause left out, or the third kill would end a job.
AGAIN = """
WITH again AS (
    UPDATE background_jobs SET crashes = 0, run_at = clock_timestamp()
    WHERE status = 'pending' AND (crashes > 0 OR run_at > clock_timestamp()) RETURNING id, run_at
)
UPDATE turno.tickets t SET state = 'ready', run_at = again.run_at FROM again WHERE t.job_id = again.id
"""
CRASHED = "SELECT count(*) FROM background_job_attempts WHERE outcome = 'crashed'"


class Damaged(Exception):
    """What was invoiced is not what was asked for."""


@dataclass(slots=True)
class Bench:
    """A stage, and what was asked for on it."""

    stage: Stage
    asked: dict[str, int] = field(default_factory=dict)
    jobs: int = 0

    def query(self, tenant: Tenant, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement in a tenant's schema."""
        with self.stage.admin(tenant) as session:
            cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def crashed(self) -> int:
        """Count the attempts killed so far."""
        return sum(self.query(tenant, CRASHED)[0][0] for tenant in self.stage.tenants)

    def tend(self) -> None:
        """Let what was killed run again at once, and have enough to kill."""
        for tenant in self.stage.tenants:
            self.query(tenant, AGAIN)
            while self._open(tenant) < OPEN_JOBS:
                self._enqueue(tenant)

    def _open(self, tenant: Tenant) -> int:
        open_jobs = "SELECT count(*) FROM background_jobs WHERE status IN ('pending', 'running')"
        return int(self.query(tenant, open_jobs)[0][0])

    def _enqueue(self, tenant: Tenant) -> None:
        orders = self.stage.new_orders(tenant, ORDERS)
        payload = {"order_ids": orders, "point_of_sale": 1}
        job = NewJob(
            type=BatchInvoicing.type,
            version=BatchInvoicing.version,
            queue=BatchInvoicing.queue,
            backend="pool",
            max_attempts=4,
            payload=payload,
            payload_hash=fingerprint(Submission(handler=BatchInvoicing, payload=payload, user_id="ana")),
            user_id="ana",
        )
        with self.stage.web() as web:
            call_as_api(web, tenant, ENQUEUE, job.parameters())
        self.asked[tenant.slug] = self.asked.get(tenant.slug, 0) + len(orders)
        self.jobs += 1


def run(options: Options) -> Report:
    """Kill so many attempts in phases, finish what is left, and count what was invoiced against what was asked."""
    report = Report("killed", "s")
    wanted = QUICK_KILLS if options.quick else KILLS
    began = time.perf_counter()
    with open_stage() as stage:
        bench = Bench(stage)
        killed = {}
        for number, step in enumerate(PHASES, 1):
            before = bench.crashed()
            _kill(bench, step, until=wanted * number // len(PHASES))
            killed[step or "at random"] = bench.crashed() - before
        _finish(bench)
        invoices = _check(bench)
    report.facts |= {
        "attempts killed": sum(killed.values()),
        "by step": killed,
        "jobs": bench.jobs,
        "orders and invoices": invoices,
        "doubled, missing or out of sequence": 0,
        "crash budget": "reset by the benchmark after each kill",
        "seconds": round(time.perf_counter() - began, 1),
    }
    return report


def _kill(bench: Bench, step: str, *, until: int) -> None:
    chance, lives = Random(until), dict[int, float]()  # noqa: S311 - when a child dies is no secret
    with _pool(bench.stage, step) as pool:
        for look in count():
            if look % 5 == 0:
                bench.tend()
                if bench.crashed() >= until:
                    return
            if pool.poll() is not None:
                raise Damaged(f"the pool has ended by itself with status {pool.returncode}")
            if step == AT_RANDOM:
                now = time.monotonic()
                for child in processes.children(pool.pid):
                    if lives.setdefault(child, now + chance.uniform(0, LONGEST_LIFE)) <= now:
                        processes.kill(child)
            time.sleep(0.01)


def _finish(bench: Bench) -> None:
    with _pool(bench.stage, AT_RANDOM):
        while any(bench.query(tenant, "SELECT job_id FROM turno.tickets LIMIT 1") for tenant in bench.stage.tenants):
            for tenant in bench.stage.tenants:
                bench.query(tenant, AGAIN)
            time.sleep(0.1)


def _check(bench: Bench) -> int:
    invoices = 0
    for tenant in bench.stage.tenants:
        with bench.stage.admin(tenant) as session:
            integrity = check_invoices(session)
        ((found, different),) = bench.query(tenant, "SELECT count(*), count(DISTINCT order_id) FROM invoices")
        states = bench.query(tenant, "SELECT status, count(*) FROM background_jobs GROUP BY status")
        items = bench.query(tenant, "SELECT state, count(*) FROM background_job_items GROUP BY state")
        asked = bench.asked[tenant.slug]
        if integrity != SPOTLESS or (found, different) != (asked, asked) or items != [("done", asked)]:
            raise Damaged(f"{tenant.slug}: {asked} orders, {found} invoices of {different}, {items}, {integrity}")
        if [status for status, _ in states] != ["completed"]:
            raise Damaged(f"{tenant.slug}: {states}")
        invoices += found
    return invoices


@contextmanager
def _pool(stage: Stage, step: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the product's own pool, whose children kill themselves at a step."""
    environment = stage.environment("pool") | {"LOG_LEVEL": "ERROR", "POOL_MAX_CHILDREN": str(os.cpu_count() or 2)}
    if step:
        environment["TURNO_CRASH_AT"] = step
    with (stage.folder / "workers.log").open("ab") as log:
        pool = subprocess.Popen(
            [sys.executable, str(ROOT / "cli" / "worker_pool.py")],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield pool
    finally:
        pool.terminate()
        pool.wait(30)
