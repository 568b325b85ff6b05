"""The backend changed every second under load, among all three, the broker killed: nothing lost, nothing doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.bare_jobs import Leave
from benchmarks.broker_environment import open_broker_environment
from benchmarks.report import Report
from turno.jobs.new_job import NewJob
from turno.store.operator import routing
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from uuid import UUID

    from benchmarks.benchmark import Options
    from benchmarks.broker_environment import BrokerEnvironment

FLIP_EVERY = 1.0
KILL_EVERY = 15.0
KILL_ONCE_AFTER = 1.0
SWEEP_EVERY = 2.0
PAUSE = 0.01  # seconds between two submissions
BACKENDS = ("pool", "rabbitmq", "exec")


def run(options: Options) -> Report:
    """Submit all the while; count accepted jobs, ended jobs, and jobs that ended or took effect twice."""
    report = Report("flip", "ms")
    lasting = options.of(120.0, quick=12.0, smoke=2.0)
    with open_broker_environment(tenants=4) as broken:
        residents = {
            broken.start(backend, TURNO_MAX_CHILDREN="2").pid: backend for backend in ("pool", "rabbitmq", "rabbitmq")
        }
        over = threading.Event()
        jobs: list[UUID] = []
        took: list[float] = []
        report.facts |= {"flips": 0, "broker_kills": 0}
        acts = [
            threading.Thread(target=act, args=(broken, over, report.facts))
            for act in (_flip, options.of(_kill, quick=_kill_once, smoke=_kill_once))
        ]
        submitting = threading.Thread(target=_submit, args=(broken, over, jobs, took))
        for thread in (submitting, *acts):
            thread.start()
        with broken.cron(every=SWEEP_EVERY):
            time.sleep(lasting)
            over.set()
            for thread in (submitting, *acts):
                thread.join()
            report.facts["drained"] = broken.drained(within=300)
        broken.stop()
        report.facts |= _tally(broken, jobs) | {"run by": _run_by(broken, residents)}
    report.add({"submit": took})
    report.wanted |= {"doubled": 0, "lost": 0}
    return report


def _submit(broken: BrokerEnvironment, over: threading.Event, jobs: list[UUID], took: list[float]) -> None:
    wanted = NewJob.of(Leave, {}, user_id="ana")
    with broken.web("pool", ttl=0.2) as web:
        while not over.wait(PAUSE):
            for tenant in broken.tenants:
                began = time.perf_counter()
                verdict = web.submit(tenant, wanted)
                took.append((time.perf_counter() - began) * 1000)
                assert verdict.job_id is not None  # noqa: S101 - a refused job was not submitted
                jobs.append(verdict.job_id)


def _flip(broken: BrokerEnvironment, over: threading.Event, facts: dict[str, Any]) -> None:
    logins = broken.bench.logins
    with service_session(logins, logins.operator, application="bench-operator") as operator:
        while not over.wait(FLIP_EVERY):
            facts["flips"] += 1
            routing.set_for_all(operator, "queue_backend", BACKENDS[facts["flips"] % len(BACKENDS)])
            routing.reroute(operator, "pool")


def _kill(broken: BrokerEnvironment, over: threading.Event, facts: dict[str, Any]) -> None:
    while not over.wait(KILL_EVERY):
        _kill_now(broken, facts)


def _kill_once(broken: BrokerEnvironment, over: threading.Event, facts: dict[str, Any]) -> None:
    over.wait(KILL_ONCE_AFTER)
    _kill_now(broken, facts)


def _kill_now(broken: BrokerEnvironment, facts: dict[str, Any]) -> None:
    broken.node.kill()
    facts["broker_kills"] += 1
    broken.node.start()


def _tally(broken: BrokerEnvironment, jobs: list[UUID]) -> dict[str, Any]:
    there = completed = doubled = 0
    for tenant in broken.tenants:
        there += broken.count("background_jobs", tenant)
        completed += broken.count("background_jobs", tenant, "status = 'completed'")
        twice = "(SELECT {0} FROM {1} WHERE {2} GROUP BY {0} HAVING count(*) > 1) AS twice"
        ended = twice.format("job_id", "background_job_attempts", "outcome = 'completed'")
        effect = twice.format("company_name", "customers", "country = 'left'")
        doubled += max(broken.count(ended, tenant), broken.count(effect, tenant))
    return {"submitted": len(jobs), "completed": completed, "lost": len(jobs) - there, "doubled": doubled}


def _run_by(broken: BrokerEnvironment, residents: dict[int, str]) -> dict[str, int]:
    """Count the attempts of each backend: launched workers ran the jobs that no resident worker ran."""
    result = Counter[str]()
    for tenant in broken.tenants:
        query = "SELECT split_part(worker, ':', 2)::integer, count(*) FROM background_job_attempts GROUP BY 1"
        for pid, attempts in broken.bench.in_schema(tenant).execute(query).fetchall():
            result[residents.get(pid, "exec")] += attempts
    return {backend: result[backend] for backend in BACKENDS}
