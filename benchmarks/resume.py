"""A batch of 25,000 items in one part, all but one in the ledger: how long the next attempt takes to its end."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.environment import ROOT, open_environment
from benchmarks.report import Report
from handlers.batch_invoicing import BatchInvoicing
from tenants.northwind.load import load_orders

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

ITEMS = 25_000
FLOOR, OURS = "one item", "one item after 24,999 that are done"


class NotResumed(Exception):
    """The attempt did other work than the remaining item."""


def run(options: Options) -> Report:
    """Measure the attempt between the times of its row; the floor is a job with this item only."""
    report = Report("resume", "ms")
    with open_environment() as bench:
        tenant = bench.tenant("suc0001")
        load_orders(bench.in_schema(tenant), range(1))
        items = options.of(ITEMS, quick=ITEMS, smoke=100)
        contestants = {FLOOR: _attempt(bench, tenant, 1), OURS: _attempt(bench, tenant, items)}
        samples = options.sample(contestants, rounds=15, quick=3)
    report.add(samples)
    report.compare(samples, OURS, FLOOR)
    report.wanted[OURS] = 1000.0
    report.facts |= {"items": items, "skipped": items - 1}
    return report


def _attempt(bench: BenchEnvironment, tenant: Tenant, items: int) -> Contestant:
    def turn() -> list[float]:
        admin = bench.in_schema(tenant)
        admin.execute("TRUNCATE invoices, invoice_lines, invoice_counters, background_job_items")
        row = admin.execute("SELECT id FROM orders").fetchone()
        if row is None:
            raise NotResumed("no order was loaded")
        # Orders are taken in the order of their ids: the remaining item is the last.
        orders = [*range(row[0] - items + 1, row[0]), row[0]]
        job_id = bench.enqueue(BatchInvoicing, tenant, {"order_ids": orders, "point_of_sale": 1})
        admin = bench.in_schema(tenant)
        admin.execute(
            "INSERT INTO background_job_items (job_id, key, state)"
            " SELECT %s, key::text, 'done' FROM unnest(%s::bigint[]) AS key",
            [job_id, orders[:-1]],
        )
        worker = [sys.executable, str(ROOT / "cli" / "background_worker.py"), str(job_id)]
        subprocess.run(worker, env=bench.environment(TURNO_HANDLERS="benchmarks.parts:HANDLERS"), check=True, cwd=ROOT)
        ended = admin.execute(
            "SELECT extract(epoch FROM a.finished_at - a.started_at) * 1000, j.result ->> 'invoiced',"
            " (SELECT count(*) FROM invoices)"
            " FROM background_job_attempts a JOIN background_jobs j ON j.id = a.job_id WHERE j.id = %s",
            [job_id],
        ).fetchone()
        if ended is None or ended[1:] != (str(items), 1):
            raise NotResumed(f"the attempt ended as {ended}")
        return [float(ended[0])]

    return turn
