"""RabbitMQ's backend: POST with the broker up, down and blocked, submit to start, jobs a second, urgent before bulk."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.bare_jobs import Idle
from benchmarks.broker_environment import open_broker_environment
from benchmarks.broker_peers import PEERS, throughput
from benchmarks.dispatch import OPEN_JOBS
from benchmarks.http_client import crowd
from benchmarks.report import Report
from benchmarks.sampling import quantile
from benchmarks.web_process import TURNO, serving
from turno.commands.token import development_token
from turno.jobs.job import Priority
from turno.jobs.new_job import NewJob

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.broker_environment import BrokerEnvironment
    from benchmarks.http_client import NextRequest, Request

PATH = "/api/jobs/batch_invoicing"
UP, BLOCKED, DOWN = "up", "blocked", "down"
CLIENTS = 4
AT_MOST = 1.1


def run(options: Options) -> Report:
    """Measure the web first, without a worker for its jobs, then the consumers."""
    report = Report("broker", "ms")
    with open_broker_environment() as measured:
        posts = _posts(measured, rounds=options.of(10, quick=2, smoke=1), seconds=options.of(1.0, quick=1.0, smoke=0.2))
        report.add(posts)
        for broker in (UP, BLOCKED, DOWN):
            report.compare(posts, _ours(broker), _pool(broker), at_most=AT_MOST)
        report.facts["p99 / pool's"] = {
            broker: quantile(posts[_ours(broker)], 0.99) / quantile(posts[_pool(broker)], 0.99)
            for broker in (UP, BLOCKED, DOWN)
        }
        for _ in range(2):
            measured.start("rabbitmq", TURNO_MAX_CHILDREN="2", TURNO_MIN_CHILDREN="2")
        report.add({"submit to start": _starts(measured, options.of(500, quick=60, smoke=2))})
        report.facts["jobs/s, two consumers"] = _throughput(measured, options.of(10_000, quick=800, smoke=20))
        report.add(_behind(measured, options.of(10_000, quick=1_000, smoke=100)))
        measured.stop()
        jobs = options.of(10_000, quick=800, smoke=20)
        left_out = {peer.name: "left out: ask for it with --peers" for peer in PEERS}
        report.facts |= throughput(measured, jobs) if options.peers else left_out
    report.wanted |= {"submit to start": 8, "urgent behind bulk": 1_000, "normal behind bulk": 60_000}
    return report


def _ours(broker: str) -> str:
    return f"POST, rabbitmq, broker {broker}"


def _pool(broker: str) -> str:
    """Name the same machine's other backend in the same minute: a broker in trouble takes processor time from both."""
    return f"POST, pool, broker {broker}"


def _posts(measured: BrokerEnvironment, *, rounds: int, seconds: float) -> dict[str, list[float]]:
    bench = measured.bench
    requests = _submissions(measured)
    samples: dict[str, list[float]] = {}
    # The jobs of a paused tenant wait: the benchmark measures the web up to the hint, next to a worker that receives
    # the hint.
    bench.admin.execute("UPDATE turno.tenants SET paused_at = now()")
    measured.start("pool")
    measured.start("rabbitmq")
    with serving(bench, TURNO, QUEUE_BACKEND="pool") as pool, serving(bench, TURNO, QUEUE_BACKEND="rabbitmq") as ours:

        def take(broker: str) -> None:
            for _ in range(rounds):
                for name, port in ((_pool(broker), pool), (_ours(broker), ours)):
                    samples.setdefault(name, []).extend(crowd(port, PATH, requests, clients=CLIENTS, seconds=seconds))

        for port in (pool, ours):
            crowd(port, PATH, requests, clients=CLIENTS, seconds=seconds / 2)
        take(UP)
        measured.node.control("set_vm_memory_high_watermark", "0.00001")
        take(BLOCKED)
        measured.node.control("set_vm_memory_high_watermark", "0.4")
        measured.node.stop()
        take(DOWN)
        measured.node.start()
    measured.stop()
    bench.in_schema(measured.tenants[0]).execute("TRUNCATE background_jobs, turno.tickets CASCADE")
    bench.admin.execute("UPDATE turno.tenants SET paused_at = NULL")
    return samples


def _submissions(measured: BrokerEnvironment) -> NextRequest:
    settings, numbers = measured.bench.settings(), count()
    token = ""

    def next_request() -> Request:
        nonlocal token
        number = next(numbers)
        if number % OPEN_JOBS == 0 or not token:
            token = development_token(settings, user=f"ana-{number}", tenants=[measured.tenants[0].slug])
        headers = {
            "Authorization": f"Bearer {token}",
            "X-Schema": measured.tenants[0].slug,
            "Idempotency-Key": str(uuid4()),
        }
        return headers, json.dumps({"payload": {"order_ids": [10_248], "point_of_sale": 1}}).encode()

    return next_request


def _starts(measured: BrokerEnvironment, times: int) -> list[float]:
    wanted = NewJob.of(Idle, {}, user_id="ana")
    with measured.web("rabbitmq") as web:
        for number in range(times + 10):
            web.submit(measured.tenants[0], wanted)
            measured.drained(within=120)
            time.sleep(0.01 * (number % 5))
    return _waits(measured)[10:]


def _waits(measured: BrokerEnvironment, priority: Priority = Priority.NORMAL) -> list[float]:
    """Return the milliseconds between the creation and the start of every job of a priority, and forget the jobs."""
    session = measured.bench.in_schema(measured.tenants[0])
    rows = session.execute(
        "SELECT extract(epoch FROM started_at - created_at)::float8 * 1000 FROM background_jobs"
        " WHERE priority = %s ORDER BY created_at",
        (int(priority),),
    ).fetchall()
    session.execute("DELETE FROM background_jobs WHERE priority = %s", (int(priority),))
    return [float(wait) for (wait,) in rows]


def _throughput(measured: BrokerEnvironment, jobs: int) -> float:
    measured.enqueue(Idle, jobs)
    began = time.perf_counter()
    measured.drained(within=300)
    per_second = jobs / (time.perf_counter() - began)
    _waits(measured)
    return per_second


def _behind(measured: BrokerEnvironment, bulk: int) -> dict[str, list[float]]:
    measured.enqueue(Idle, bulk, priority=Priority.LOW)
    urgent = NewJob.of(Idle, {}, user_id="ana", priority=Priority.URGENT)
    normal = NewJob.of(Idle, {}, user_id="ana")
    with measured.web("rabbitmq") as web:
        while measured.count("turno.tickets", condition="priority = 2") > bulk / 20:
            web.submit(measured.tenants[0], urgent)
            web.submit(measured.tenants[0], normal)
            time.sleep(0.1)
    measured.drained(within=300)
    return {
        "urgent behind bulk": _waits(measured, Priority.URGENT),
        "normal behind bulk": _waits(measured, Priority.NORMAL),
        "bulk": _waits(measured, Priority.LOW),
    }
