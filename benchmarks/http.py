"""POST to 202 through `turno serve`: 8 clients against a bare Flask route with one INSERT; 5 a second with spawning."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, LiteralString
from uuid import uuid4

from benchmarks.dispatch import OPEN_JOBS, insert_into_floor
from benchmarks.environment import open_environment
from benchmarks.http_client import crowd, steady
from benchmarks.report import Report
from benchmarks.sampling import interleaved
from benchmarks.web_process import BARE, TURNO, serving
from tenants.northwind.load import load_orders
from turno.commands.token import development_token
from turno.queues.exec.slots import SlotFolder
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.http_client import NextRequest, Request

PATH = "/api/jobs/batch_invoicing"
ORDERS = range(10_248, 10_748)
CLIENTS = 8
FLOOR, OURS, STEADY = "bare route", "POST", "POST, 5 a second, spawning"


def run(options: Options) -> Report:
    """Measure many clients while all slots are full, then a steady rate at which each job may start a worker."""
    report = Report("http", "ms")
    with open_environment() as bench, ExitStack() as stack:
        tenant = bench.tenant("suc0001")
        load_orders(bench.in_schema(tenant), range(len(ORDERS)))
        insert_into_floor(bench)
        bare = stack.enter_context(serving(bench, BARE))
        turno = stack.enter_context(serving(bench, TURNO))
        requests = _submissions(bench)
        crowds = _crowds(bench, bare, turno, requests, rounds=options.of(12, quick=4, smoke=1))
        # The web maintains the tenant meanwhile: TRUNCATE of two tables would meet its locks in the other order.
        bench.in_schema(tenant).execute("DELETE FROM background_jobs")
        bench.admin.execute("DELETE FROM turno.tickets")
        took = _trickle(bench, turno, requests, report, times=options.of(300, quick=50, smoke=5))
    report.add({**crowds, STEADY: took})
    report.compare(crowds, OURS, FLOOR, at_most=3.0)
    report.wanted[f"{STEADY} p99"] = 60.0
    return report


def _crowds(
    bench: BenchEnvironment, bare: int, turno: int, requests: NextRequest, *, rounds: int
) -> dict[str, list[float]]:
    """Return the samples of all clients; Turno's hints find no free slot, so nothing is spawned."""
    settings = bench.settings()
    folder = SlotFolder(settings.slot_dir, settings.max_children)
    slots = [slot for _ in range(settings.max_children) if (slot := folder.take(""))]
    contestants = {
        FLOOR: lambda: crowd(bare, "/", _nothing, clients=CLIENTS, seconds=1),
        OURS: lambda: crowd(turno, PATH, requests, clients=CLIENTS, seconds=1),
    }
    try:
        return interleaved(contestants, rounds=rounds)
    finally:
        for slot in slots:
            slot.close()


def _trickle(bench: BenchEnvironment, port: int, requests: NextRequest, report: Report, *, times: int) -> list[float]:
    """Return the samples of single POSTs; workers run the submitted jobs meanwhile, under the default cap."""
    before = _workers_started(bench)
    took = steady(port, PATH, requests, every=0.2, times=times)
    wait_until(lambda: not _count(bench, "FROM turno.tickets"), within=60)
    wait_until(lambda: not _count(bench, "FROM turno.workers"), within=60)
    started = _workers_started(bench) - before
    report.facts |= {
        "spawns": started,
        "spawns per POST": started / times,
        "jobs left": _count(bench, "FROM turno.tickets"),
    }
    return took


def _submissions(bench: BenchEnvironment) -> NextRequest:
    """Return a function that creates the next request: a new key each, and a new user before the limit of open jobs."""
    settings, numbers = bench.settings(), count()
    token = ""

    def next_request() -> Request:
        nonlocal token
        number = next(numbers)
        if number % OPEN_JOBS == 0:
            token = development_token(settings, user=f"ana-{number}", tenants=["suc0001"])
        headers = {"Authorization": f"Bearer {token}", "X-Schema": "suc0001", "Idempotency-Key": str(uuid4())}
        order = ORDERS[number % len(ORDERS)]
        return headers, json.dumps({"payload": {"order_ids": [order], "point_of_sale": 1}}).encode()

    return next_request


def _nothing() -> Request:
    return {}, b""


def _count(bench: BenchEnvironment, rows: LiteralString) -> int:
    (number,) = bench.admin.execute(f"SELECT count(*) {rows}").fetchone() or (0,)
    return int(number)


def _workers_started(bench: BenchEnvironment) -> int:
    # Statistics reach the table when a session ends, as each worker's does.
    (number,) = bench.admin.execute(
        "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'turno.workers'::regclass"
    ).fetchone() or (0,)
    return int(number)
