"""10,000 attempts of batch_invoicing killed at random moments and at named steps: no invoice doubled or missing."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks import processor_time
from benchmarks.report import Report
from cli.demo.invoices import InvoiceIntegrity, check_invoices
from handlers.batch_invoicing import BatchInvoicing
from nemesis.environment import open_environment
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.jobs.new_job import NewJob
from turno.tenancy.identity.session import call_as_api
from turno.testing import processes
from turno.wiring.shared import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from benchmarks.benchmark import Options
    from nemesis.environment import Environment
    from turno.tenancy.identity.connections import TimeoutConnection
    from turno.tenancy.identity.tenant import Tenant

KILLS, QUICK_KILLS, SMOKE_KILLS = 10_000, 60, 6
LONGEST = 3_000.0  # seconds: the report states the reached number, which is smaller on a busy machine
AT_RANDOM = ""
# Where attempts are killed, a chunk is of 50 orders, and which part of all of them; the next phase makes up for missing
# kills.
SHARES = {
    "started": 0.08,
    "chunk_recorded": 0.05,
    "chunk_recorded:self:2": 0.04,
    "chunk_committed": 0.05,
    "completing": 0.08,
    AT_RANDOM: 0.7,
}
POOLS, CHILDREN = 2, 3
ORDERS = 120  # a job: three chunks
OPEN_JOBS = 6  # a tenant
# Milliseconds of a child's processor time: until its attempt is under way, and from there on the mean; 1.5 an order.
START, MEAN_LIFE = 7.0, 30.0
LOOKS, BETWEEN_LOOKS = 20, 0.025  # then the benchmark counts killed and remaining attempts
SPOTLESS = InvoiceIntegrity(missing_numbers=0, doubled_orders=0, wrong_totals=0)
# Or the third kill would end a job.
FORGIVEN = """
CREATE FUNCTION forgiven() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.crashes := 0; RETURN NEW; END';
CREATE TRIGGER forgiven BEFORE UPDATE OF crashes ON background_jobs FOR EACH ROW EXECUTE FUNCTION forgiven()
"""
KILLED = (
    "SELECT count(*) FROM background_job_attempts"
    " WHERE outcome = 'crashed' AND error ->> 'message' LIKE 'killed by SIGKILL%'"
)
OPEN = "SELECT count(*) FROM background_jobs WHERE status IN ('pending', 'running')"


class Damaged(Exception):
    """The invoices differ from the submitted orders."""


@dataclass(slots=True)
class Branch:
    """A tenant, the superuser's session in its schema, and the submitted orders."""

    tenant: Tenant
    admin: psycopg.Connection[Any]
    requested: int = 0
    jobs: int = 0

    def count(self, statement: str) -> int:
        """Return the number that a statement answers with."""
        row = self.admin.execute(statement.encode()).fetchone()
        return int(row[0]) if row else 0

    def check(self) -> None:
        """Raise Damaged unless every submitted order has exactly one invoice and every job is completed."""
        result = {
            "invoices": self.count("SELECT count(*) FROM invoices"),
            "orders invoiced": self.count("SELECT count(DISTINCT order_id) FROM invoices"),
            "items done": self.count("SELECT count(*) FROM background_job_items WHERE state = 'done'"),
            "items": self.count("SELECT count(*) FROM background_job_items"),
            "jobs completed": self.count("SELECT count(*) FROM background_jobs WHERE status = 'completed'"),
            "jobs": self.count("SELECT count(*) FROM background_jobs"),
        }
        integrity = check_invoices(self.admin)
        wanted = [self.requested] * 4 + [self.jobs] * 2
        if integrity != SPOTLESS or list(result.values()) != wanted:
            raise Damaged(f"{self.tenant.slug}: {self.requested} orders in {self.jobs} jobs, but {result}, {integrity}")


@dataclass(slots=True)
class Bench:
    """An environment, its branches, and the client that submits batches."""

    environment: Environment
    branches: list[Branch]
    web: TimeoutConnection

    def killed(self) -> int:
        """Count the attempts that were under way when they were killed."""
        return sum(branch.count(KILLED) for branch in self.branches)

    def left(self) -> int:
        """Count the jobs that have not ended."""
        return sum(branch.count(OPEN) for branch in self.branches)

    def ask_for_more(self) -> None:
        """Have enough to kill."""
        for branch in self.branches:
            for _ in range(OPEN_JOBS - branch.count(OPEN)):
                self._ask(branch)

    def _ask(self, branch: Branch) -> None:
        orders = self.environment.new_orders(branch.tenant, ORDERS)
        payload = {"order_ids": orders, "point_of_sale": 1}
        job = NewJob.of(BatchInvoicing, payload, backend="pool", user_id="ana")
        call_as_api(self.web, branch.tenant, ENQUEUE, submission(job))
        branch.requested += len(orders)
        branch.jobs += 1


def run(options: Options) -> Report:
    """Kill `n` attempts in phases, finish the remaining jobs, and compare the invoices with the submitted orders."""
    report = Report("killed", "s")
    wanted = options.of(KILLS, quick=QUICK_KILLS, smoke=SMOKE_KILLS)
    killed, took = dict[str, int](), dict[str, float]()
    with _open_bench() as bench:
        start, so_far = time.perf_counter(), 0.0
        for step, share in SHARES.items():
            name, before, began = step or "at random", bench.killed(), time.perf_counter()
            so_far += share
            until = max(before + round(wanted * share), round(wanted * so_far))
            _kill(bench, step, until=until, end=start + LONGEST * so_far)
            killed[name], took[name] = bench.killed() - before, time.perf_counter() - began
        _finish(bench)
        for branch in bench.branches:
            branch.check()
        report.facts |= {
            "attempts killed": bench.killed(),
            "by step": killed,
            "kills a second": {name: round(killed[name] / took[name], 1) for name in killed},
            "jobs": sum(branch.jobs for branch in bench.branches),
            "orders and invoices": sum(branch.requested for branch in bench.branches),
            "doubled, missing or out of sequence": 0,
            "crash budget": "set back to nothing by a trigger of the benchmark's",
            "pause after a crash": "none: the type's settings",
            "pools and children": [POOLS, CHILDREN],
            "seconds": round(sum(took.values()), 1),
        }
    return report


@contextmanager
def _open_bench() -> Iterator[Bench]:
    with open_environment() as environment, ExitStack() as stack:
        branches = [Branch(tenant, stack.enter_context(environment.admin(tenant))) for tenant in environment.tenants]
        for branch in branches:
            branch.admin.execute(FORGIVEN)
        yield Bench(environment, branches, stack.enter_context(environment.web()))


def _kill(bench: Bench, step: str, *, until: int, end: float) -> None:
    killer = Killer(Random(until))  # noqa: S311 - when a child dies is no secret
    with _pools(bench.environment, step) as pools:
        while bench.killed() < until and time.perf_counter() < end:
            bench.ask_for_more()
            for _ in range(LOOKS):
                for pool in pools:
                    if pool.poll() is not None:
                        log = _log(bench.environment).read_text(errors="replace")
                        raise Damaged(f"a pool ended with status {pool.returncode}; the end of its log:\n{log[-2000:]}")
                    if step == AT_RANDOM:
                        killer.look(pool)
                time.sleep(BETWEEN_LOOKS)


@dataclass(slots=True)
class Killer:
    """Kills a pool's children at any moment of their work, each as likely as another.

    Their lives are measured in processor time: the load of the machine does not change their work.
    """

    chance: Random
    lives: dict[int, float] = field(default_factory=dict)

    def look(self, pool: subprocess.Popen[bytes]) -> None:
        """Kill the processes whose time is over."""
        for child in processes.children(pool.pid):
            if processor_time.milliseconds(child) >= self._life(child):
                processes.kill(child)

    def _life(self, child: int) -> float:
        return self.lives.setdefault(child, START + self.chance.expovariate(1 / MEAN_LIFE))


def _finish(bench: Bench) -> None:
    with _pools(bench.environment, AT_RANDOM):
        while bench.left():
            time.sleep(0.1)


def _log(environment: Environment) -> Path:
    return environment.folder / "workers.log"


@contextmanager
def _pools(environment: Environment, step: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run pools as in production, with children that kill themselves at a step."""
    variables = environment.variables("pool") | {
        "TURNO_LOG_LEVEL": "ERROR",
        "TURNO_MIN_CHILDREN": str(CHILDREN),
        "TURNO_MAX_CHILDREN": str(CHILDREN),
        "TURNO_HANDLERS": "benchmarks.impatient:REGISTRY",
        # Only children are to die here; their parents are slow.
        "TURNO_HEARTBEAT_SECONDS": "5",
        "TURNO_DEAD_AFTER_SECONDS": "60",
    }
    if step:
        variables["TURNO_CRASH_AT"] = step
    with _log(environment).open("ab") as log:
        pools = [
            subprocess.Popen(
                [sys.executable, str(ROOT / "cli" / "worker_pool.py")],
                cwd=ROOT,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            for _ in range(POOLS)
        ]
    try:
        yield pools
    finally:
        for pool in pools:
            pool.terminate()
        for pool in pools:
            pool.wait(30)
