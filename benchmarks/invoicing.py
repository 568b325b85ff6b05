"""500 Northwind orders invoiced by one job, with ledger and progress, against a plain loop over the service."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg

from benchmarks import processor_time
from benchmarks.environment import ROOT, open_environment
from benchmarks.report import Report
from cli.demo.invoices import InvoiceIntegrity, check_invoices, issue
from handlers import build_registry
from handlers.batch_invoicing import BatchInvoicing
from tenants.northwind.load import expected_net_total, load_orders
from turno.runner.executor import Executor
from turno.runner.session import HandlerConnection, Sessions
from turno.runner.shared_state import WorkerCallbacks
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import handler_session, service_session
from turno.tenancy.identity.tenant import HandlerLogin

if TYPE_CHECKING:
    from uuid import UUID

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

SHARE = range(500)
FLOOR, OURS = "plain loop", "job"
FLOOR_WORK, OURS_WORK = "plain loop, processor", "attempt, processor"
SESSION_NAME = "bench-here"
SPOTLESS = InvoiceIntegrity(missing_numbers=0, doubled_orders=0, wrong_totals=0)

C = TypeVar("C", bound=psycopg.Connection[Any])


class WrongTotals(Exception):
    """The invoices differ from the orders."""


def run(options: Options) -> Report:
    """Measure the attempt between the times of its row; the loop is one transaction without a ledger.

    Both once more on one session in this process, in processor time: other work on the machine adds nothing to this
    figure.
    """
    report = Report("invoicing", "ms")
    with open_environment() as bench, ExitStack() as stack:
        tenant = bench.tenant("suc0001")
        load_orders(bench.in_schema(tenant), SHARE)
        in_process = stack.enter_context(InProcess(bench, tenant))
        contestants: dict[str, Contestant] = {
            FLOOR: _loop(bench, tenant),
            OURS: _job(bench, tenant),
            FLOOR_WORK: in_process.loop,
            OURS_WORK: in_process.attempt,
        }
        samples = options.sample(contestants, rounds=15, quick=5)
    report.add(samples)
    report.compare(samples, OURS, FLOOR, at_most=1.5)
    report.compare(samples, OURS_WORK, FLOOR_WORK, at_most=1.5)
    report.wanted[OURS] = 2000.0
    report.facts |= {"orders": len(SHARE), "totals": "checked after every run"}
    return report


def _loop(bench: BenchEnvironment, tenant: Tenant) -> Contestant:
    def turn() -> list[float]:
        _clear(bench, tenant)
        with _handler_session(bench, tenant, psycopg.Connection[Any]) as session:
            orders = [order for (order,) in session.execute("SELECT id FROM orders ORDER BY id")]
            start = time.perf_counter()
            with session.transaction():
                for order in orders:
                    issue(session, order, 1)
            took = (time.perf_counter() - start) * 1000
        _check(bench, tenant)
        return [took]

    return turn


def _job(bench: BenchEnvironment, tenant: Tenant) -> Contestant:
    def turn() -> list[float]:
        _clear(bench, tenant)
        job_id = _enqueue(bench, tenant)
        worker = [sys.executable, str(ROOT / "cli" / "background_worker.py"), str(job_id)]
        subprocess.run(worker, env=bench.environment(), check=True, cwd=ROOT)
        _check(bench, tenant)
        row = (
            bench.in_schema(tenant)
            .execute(
                "SELECT extract(epoch FROM a.finished_at - a.started_at) * 1000,"
                " (j.result -> 'net_totals' ->> 'USD')::numeric"
                " FROM background_job_attempts a JOIN background_jobs j ON j.id = a.job_id WHERE j.id = %s",
                [job_id],
            )
            .fetchone()
        )
        if row is None or row[1] != expected_net_total(SHARE):
            raise WrongTotals(f"the job's result says {row}")
        return [float(row[0])]

    return turn


class InProcess:
    """Runs loop and attempt in this process; their cost is the processor time of the client and its server process."""

    def __init__(self, bench: BenchEnvironment, tenant: Tenant) -> None:
        self._bench = bench
        self._tenant = tenant
        self._login = HandlerLogin.of(tenant)
        self._sessions = Sessions(lambda _: _handler_session(bench, tenant, HandlerConnection), keep=1)
        self._engine = service_session(bench.logins, bench.logins.engine, application="bench-engine")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
        self._sessions.close()

    def loop(self) -> list[float]:
        """Invoice every order in one transaction without a ledger."""
        orders = _orders(self._bench, self._tenant)
        _clear(self._bench, self._tenant)
        session = self._sessions.take(self._login)
        before = self._spent()
        session.execute("BEGIN")
        for order in orders:
            issue(session, order, 1)
        session.execute("COMMIT")
        took = self._spent() - before
        self._sessions.give_back(self._login, session)
        _check(self._bench, self._tenant)
        return [took]

    def attempt(self) -> list[float]:
        """Run one attempt of a job, from its start to its record."""
        _clear(self._bench, self._tenant)
        job_id, registry = _enqueue(self._bench, self._tenant), build_registry()
        worker = Engine.on(self._engine).start_worker(backend="exec", host="bench", pid=os.getpid())
        claim = Engine.on(self._engine).claim_job(worker, job_id, types=registry.versions)
        assert claim is not None  # noqa: S101 - no other worker claims the job
        executor = Executor(registry=registry, sessions=self._sessions, worker="bench", callbacks=WorkerCallbacks())
        before = self._spent()
        executor.execute((claim,))
        took = self._spent() - before
        Engine.on(self._engine).stop_worker(worker)
        _check(self._bench, self._tenant)
        return [took]

    def _spent(self) -> float:
        """Return the milliseconds of processor time spent so far, by the session in use or kept."""
        admin = self._bench.admin
        row = admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [SESSION_NAME]).fetchone()
        return processor_time.milliseconds(os.getpid(), *(row or ()))


def _orders(bench: BenchEnvironment, tenant: Tenant) -> list[int]:
    return [order for (order,) in bench.in_schema(tenant).execute("SELECT id FROM orders ORDER BY id")]


def _handler_session(bench: BenchEnvironment, tenant: Tenant, kind: type[C]) -> C:
    return handler_session(bench.logins, HandlerLogin.of(tenant), application=SESSION_NAME, kind=kind)


def _enqueue(bench: BenchEnvironment, tenant: Tenant) -> UUID:
    return bench.enqueue(BatchInvoicing, tenant, {"order_ids": _orders(bench, tenant), "point_of_sale": 1})


def _clear(bench: BenchEnvironment, tenant: Tenant) -> None:
    bench.in_schema(tenant).execute("TRUNCATE invoices, invoice_lines, invoice_counters, background_job_items")


def _check(bench: BenchEnvironment, tenant: Tenant) -> None:
    admin = bench.in_schema(tenant)
    result = admin.execute("SELECT count(*), sum(net_total) FROM invoices").fetchone()
    if result != (len(SHARE), expected_net_total(SHARE)) or check_invoices(admin) != SPOTLESS:
        raise WrongTotals(f"invoices and their net total are {result}")
