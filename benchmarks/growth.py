"""Throughput and pick-up beside 100,000 future and 500,000 finished jobs, against a database that has none of them."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.environment import open_environment
from benchmarks.report import Report
from benchmarks.resident import Client, resident
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

EMPTY, FULL = "empty", "full"
TENANTS, CHILDREN = 2, 2
TURN = 10  # pick-ups
SLOWER_AT_MOST = {"a job of many": 1 / 0.97, "pick-up": 1.1}
COLUMNS = "(type, version, queue, priority, payload, payload_hash, user_id, max_attempts, run_at"
FUTURE = f"""
WITH jobs AS (
    INSERT INTO background_jobs {COLUMNS})
    SELECT 'ring', 1, 'hot', 1, '{{}}', '', 'ana', 4, clock_timestamp() + i * interval '1 second' + interval '1 day'
    FROM generate_series(1, %(count)s) AS i
    RETURNING *
)
INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)
SELECT id, %(tenant)s, queue, type, version, priority, run_at, 'scheduled', 'pool' FROM jobs
"""  # noqa: S608 - no value from outside
FINISHED = f"""
WITH jobs AS (
    INSERT INTO background_jobs {COLUMNS}, status, attempt, started_at, finished_at, result)
    SELECT 'ring', 1, 'hot', 1, '{{}}', '', 'ana', 4, at, 'completed', 1, at, at, '{{}}'
    FROM generate_series(1, %(count)s) AS i, LATERAL (SELECT clock_timestamp() - i * interval '2 seconds') AS ago (at)
    RETURNING *
), attempts AS (
    INSERT INTO background_job_attempt_rows
        (job_id, attempt, token, worker, backend_pid, backend_start, started_at, finished_at, outcome)
    SELECT id, 1, gen_random_uuid(), gen_random_uuid(), 1, started_at, started_at, finished_at, 'completed' FROM jobs
)
INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt)
SELECT id, old, new, attempt FROM jobs,
    (VALUES ('pending', 'running'), ('running', 'completed')) AS step (old, new)
"""  # noqa: S608


def run(options: Options) -> Report:
    """Give a pool beside nothing and a pool beside much the same to do, in turns."""
    report = Report("growth", "ms")
    future, finished = options.of((100_000, 500_000), quick=(2_000, 10_000), smoke=(20, 100))
    with ExitStack() as stack:
        scenes = {name: Scene(stack) for name in (EMPTY, FULL)}
        scenes[FULL].fill(future, finished)
        for scene in scenes.values():
            scene.open(stack)
        jobs = options.of(500, quick=50, smoke=4)
        contestants: dict[str, Contestant] = {}
        for name, scene in scenes.items():
            contestants |= {f"a job of many, {name}": scene.drain(jobs), f"pick-up, {name}": scene.pick_ups}
        samples = options.sample(contestants, rounds=60, quick=5)
    report.add(samples)
    for what, at_most in SLOWER_AT_MOST.items():
        report.compare(samples, f"{what}, {FULL}", f"{what}, {EMPTY}", at_most=at_most)
    report.facts |= {"future": future, "finished": finished, "jobs of a turn": jobs}
    return report


class Scene:
    """A private server with a pool."""

    def __init__(self, stack: ExitStack) -> None:
        self._bench: BenchEnvironment = stack.enter_context(open_environment())
        self._client = stack.enter_context(Client(self._bench))
        self._tenants: list[Tenant] = [self._bench.tenant(f"suc000{number}") for number in range(TENANTS)]

    def fill(self, future: int, finished: int) -> None:
        """Put jobs there that are not due, and jobs that ended within the last days, with all that they leave."""
        for tenant in self._tenants:
            admin = self._bench.in_schema(tenant)
            admin.execute(FUTURE, {"count": future // TENANTS, "tenant": tenant.id})
            admin.execute(FINISHED, {"count": finished // TENANTS})
        self._bench.admin.execute("VACUUM ANALYZE")

    def open(self, stack: ExitStack) -> None:
        """Start the pool."""
        stack.enter_context(resident(self._bench, fewest=CHILDREN, most=CHILDREN))

    def drain(self, jobs: int) -> Contestant:
        """Return a contestant that completes `n` jobs."""

        def turn() -> list[float]:
            for tenant in self._tenants:
                self._client.backlog(tenant, jobs // TENANTS)
            start = time.perf_counter()
            self._bench.admin.execute("NOTIFY turno_jobs")
            self._wait_until_idle()
            return [(time.perf_counter() - start) * 1000 / jobs]

        return turn

    def pick_ups(self) -> list[float]:
        """Return the milliseconds from the enqueueing of single jobs to their handler's first line."""
        took = []
        for _ in range(TURN):
            start = self._client.enqueue(self._tenants[0])
            took.append((self._client.hear().at - start) / 1e6)
            self._wait_until_idle()
        return took

    def _wait_until_idle(self) -> None:
        # Not by counting the tickets: many jobs lie in the future.
        if not wait_until(lambda: not self._busy(), within=120, every=0.002):
            raise RuntimeError("the pool does not finish its work")

    def _busy(self) -> bool:
        row = self._bench.admin.execute(
            "SELECT EXISTS (SELECT FROM turno.tickets WHERE state = 'running')"
            " OR EXISTS (SELECT FROM turno.tickets WHERE state = 'ready')"
        ).fetchone()
        return row is None or bool(row[0])
