"""500 Northwind orders invoiced by one job, with ledger and progress, against a plain loop over the service."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg

from app.dispatch.dispatcher import Submission, fingerprint
from app.store.enqueue import ENQUEUE, NewJob
from benchmarks.ground import ROOT, open_ground
from benchmarks.report import Report
from benchmarks.sampling import interleaved
from handlers.batch_invoicing import BatchInvoicing
from handlers.services.invoice_integrity import InvoiceIntegrity, check_invoices
from handlers.services.invoicing import invoice_order
from handlers.services.northwind.load import expected_net_total, load_orders
from tenants.session import call_as_api, handler_session, service_session
from tenants.tenant import HandlerLogin

if TYPE_CHECKING:
    from uuid import UUID

    from benchmarks.benchmark import Options
    from benchmarks.ground import Ground
    from benchmarks.sampling import Contestant
    from tenants.tenant import Tenant

SHARE = range(500)
FLOOR, OURS = "plain loop", "job"
SPOTLESS = InvoiceIntegrity(missing_numbers=0, doubled_orders=0, wrong_totals=0)


class WrongTotals(Exception):
    """What was invoiced is not what the orders say."""


def run(options: Options) -> Report:
    """Measure the attempt from its start to its end as its row says; the loop is one transaction without a ledger."""
    report = Report("invoicing", "ms")
    with open_ground() as ground:
        tenant = ground.tenant("suc0001")
        load_orders(ground.in_schema(tenant), SHARE)
        contestants = {FLOOR: _loop(ground, tenant), OURS: _job(ground, tenant)}
        samples = interleaved(contestants, rounds=5 if options.quick else 15, seconds=options.seconds)
    report.add(samples)
    report.compare(samples, OURS, FLOOR, at_most=1.5)
    report.wanted[OURS] = 2000.0
    report.facts |= {"orders": len(SHARE), "totals": "checked after every run"}
    return report


def _loop(ground: Ground, tenant: Tenant) -> Contestant:
    def turn() -> list[float]:
        _clear(ground, tenant)
        with _handler_session(ground, tenant) as session:
            orders = [order for (order,) in session.execute("SELECT id FROM orders ORDER BY id")]
            start = time.perf_counter()
            with session.transaction():
                for order in orders:
                    invoice_order(session, order, 1)
            took = (time.perf_counter() - start) * 1000
        _check(ground, tenant)
        return [took]

    return turn


def _job(ground: Ground, tenant: Tenant) -> Contestant:
    def turn() -> list[float]:
        _clear(ground, tenant)
        job_id = _enqueue(ground, tenant)
        worker = [sys.executable, str(ROOT / "cli" / "background_worker.py"), str(job_id)]
        subprocess.run(worker, env=ground.environment(), check=True, cwd=ROOT)
        _check(ground, tenant)
        row = (
            ground.in_schema(tenant)
            .execute(
                "SELECT extract(epoch FROM a.finished_at - a.started_at) * 1000, (j.result ->> 'net_total')::numeric"
                " FROM background_job_attempts a JOIN background_jobs j ON j.id = a.job_id WHERE j.id = %s",
                [job_id],
            )
            .fetchone()
        )
        if row is None or row[1] != expected_net_total(SHARE):
            raise WrongTotals(f"the job's result says {row}")
        return [float(row[0])]

    return turn


def _handler_session(ground: Ground, tenant: Tenant) -> psycopg.Connection[Any]:
    return handler_session(
        ground.logins, HandlerLogin.of(tenant), application="bench-loop", kind=psycopg.Connection[Any]
    )


def _enqueue(ground: Ground, tenant: Tenant) -> UUID:
    orders = [order for (order,) in ground.in_schema(tenant).execute("SELECT id FROM orders ORDER BY id")]
    payload = {"order_ids": orders, "point_of_sale": 1}
    job = NewJob(
        type=BatchInvoicing.type,
        version=1,
        queue="default",
        backend="exec",
        max_attempts=1,
        payload=payload,
        payload_hash=fingerprint(Submission(handler=BatchInvoicing, payload=payload, user_id="ana")),
        user_id="ana",
    )
    with service_session(ground.logins, ground.logins.web, application="bench-web") as web:
        job_id: UUID = call_as_api(web, tenant, ENQUEUE, job.parameters())["job_id"]
    return job_id


def _clear(ground: Ground, tenant: Tenant) -> None:
    ground.in_schema(tenant).execute("TRUNCATE invoices, invoice_lines, invoice_counters, background_job_items")


def _check(ground: Ground, tenant: Tenant) -> None:
    admin = ground.in_schema(tenant)
    found = admin.execute("SELECT count(*), sum(net_total) FROM invoices").fetchone()
    if found != (len(SHARE), expected_net_total(SHARE)) or check_invoices(admin) != SPOTLESS:
        raise WrongTotals(f"invoices and their net total are {found}")
