"""25,000 orders invoiced by one batch: as one job, and split into parts that a pool's children share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.environment import open_environment
from benchmarks.report import Report
from benchmarks.resident import resident
from cli.demo.invoices import InvoiceIntegrity, check_invoices
from handlers.batch_invoicing import BatchInvoicing
from tenants.northwind.load import load_orders
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.jobs.new_job import NewJob
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import call_as_api, service_session

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

ORDERS = 25_000
NORTHWIND = 830
SINGLE, SPLIT_ALONE, SPLIT = "one job", "split, one child", "split, two children"
SPOTLESS = InvoiceIntegrity(missing_numbers=0, doubled_orders=0, wrong_totals=0)
# Copies of the Northwind orders, with their lines.
COPIES = (
    """
    INSERT INTO orders SELECT (c.copy).* FROM (
        SELECT jsonb_populate_record(o, jsonb_build_object('id', o.id + n * 100000)) AS copy
        FROM orders o, generate_series(1, %(copies)s) AS n) AS c
    """,
    """
    INSERT INTO order_lines SELECT (c.copy).* FROM (
        SELECT jsonb_populate_record(l, jsonb_build_object('order_id', l.order_id + n * 100000)) AS copy
        FROM order_lines l, generate_series(1, %(copies)s) AS n) AS c
    """,
)


class Whole(BatchInvoicing):
    """The same batch, never split."""

    part = ORDERS


HANDLERS = (Whole,)


def run(options: Options) -> Report:
    """Measure from the submission to the end, with the pool at rest before."""
    report = Report("parts", "s")
    orders = options.of(ORDERS, quick=ORDERS // 5, smoke=100)
    with open_environment() as bench:
        tenant = bench.tenant("suc0001")
        ids = _orders(bench, tenant, orders)
        contestants: dict[str, Contestant] = {
            SINGLE: _batch(bench, tenant, ids, "benchmarks.parts:HANDLERS", children=1),
            SPLIT_ALONE: _batch(bench, tenant, ids, "handlers:build_registry", children=1),
            SPLIT: _batch(bench, tenant, ids, "handlers:build_registry", children=2),
        }
        samples = options.sample(contestants, rounds=3, quick=1)
    report.add(samples)
    report.compare(samples, SPLIT, SINGLE, at_most=0.5)
    report.compare(samples, SPLIT_ALONE, SINGLE)
    report.facts |= {"orders": len(ids), "numbers and totals": "checked after every run"}
    return report


def _orders(bench: BenchEnvironment, tenant: Tenant, wanted: int) -> list[int]:
    admin = bench.in_schema(tenant)
    load_orders(admin, range(NORTHWIND))
    for statement in COPIES:
        admin.execute(statement, {"copies": -(-wanted // NORTHWIND) - 1})
    admin.execute("ANALYZE orders, order_lines")
    return [order for (order,) in admin.execute("SELECT id FROM orders ORDER BY id LIMIT %s", [wanted])]


def _batch(bench: BenchEnvironment, tenant: Tenant, ids: list[int], handlers: str, *, children: int) -> Contestant:
    def turn() -> list[float]:
        admin = bench.in_schema(tenant)
        admin.execute("TRUNCATE invoices, invoice_lines, invoice_counters, background_job_items")
        new = NewJob.of(BatchInvoicing, {"order_ids": ids, "point_of_sale": 1}, backend="pool", user_id="ana")
        with (
            resident(bench, fewest=children, most=children, handlers=handlers),
            service_session(bench.logins, bench.logins.web, application="bench-web") as web,
        ):
            start = time.perf_counter()
            job_id = call_as_api(web, tenant, ENQUEUE, submission(new))["job_id"]
            Engine.on(bench.admin).wake()
            while not _ended(bench, tenant, str(job_id)):
                time.sleep(0.02)
            took = time.perf_counter() - start
        _check(bench, tenant, len(ids))
        return [took]

    return turn


def _ended(bench: BenchEnvironment, tenant: Tenant, job_id: str) -> bool:
    query = "SELECT status, error FROM background_jobs WHERE id = %s AND finished_at IS NOT NULL"
    row = bench.in_schema(tenant).execute(query, [job_id]).fetchone()
    if row and row[0] != "completed":
        raise RuntimeError(f"the batch is {row}")
    return row is not None


def _check(bench: BenchEnvironment, tenant: Tenant, orders: int) -> None:
    admin = bench.in_schema(tenant)
    if admin.execute("SELECT count(*) FROM invoices").fetchone() != (orders,) or check_invoices(admin) != SPOTLESS:
        raise RuntimeError("the invoices differ from the orders")
