"""The cost of a claim per job, for different backlogs, tenants, dead index entries and open transactions."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from benchmarks import processor_time
from benchmarks.environment import KEY, open_environment
from benchmarks.report import Report
from turno.store.engine.claims import Claimer
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant

SLOTS, SIZE = 4, 16  # children per claim, and short jobs per child
CLAIMS = 8  # of a scene's turn before the turn of the next scene
PAGES = "SELECT sum(pg_stat_get_xact_blocks_fetched(oid)) FROM pg_class WHERE relnamespace = 'turno'::regnamespace"
WORST, ALONE = 0.1, 0.6  # milliseconds of processor time that are wanted of a job: of many, and of one


@dataclass(frozen=True, slots=True)
class Scene:
    """The waiting tickets of each tenant, and the other live and dead rows of the table."""

    tenants: int
    waiting: int
    finished: int = 0
    finished_under_a_writer: int = 0
    unknown: int = 0
    keyed: int = 0  # that wait for their concurrency keys

    @property
    def name(self) -> str:
        """Say it in words."""
        extra = {
            "finished": self.finished,
            "finished under an open writer": self.finished_under_a_writer,
            "of an unknown type": self.unknown,
            "waiting for their keys": self.keyed,
        }
        words = [f"{self.tenants:,} tenants, {self.waiting:,} waiting"]
        return ", ".join(words + [f"{count:,} {what}" for what, count in extra.items() if count])


FLOOR = Scene(tenants=10, waiting=10_000)
QUICK = [
    FLOOR,
    Scene(tenants=1, waiting=10_000),
    Scene(tenants=1_000, waiting=10_000),
    Scene(tenants=100, waiting=1_000_000),
    Scene(tenants=1, waiting=10_000, finished_under_a_writer=400_000),
    Scene(tenants=100, waiting=10_000, finished_under_a_writer=400_000),
    Scene(tenants=10, waiting=10_000, unknown=200_000),
]
FULL = [
    *QUICK,
    *(
        Scene(tenants=tenants, waiting=waiting)
        for tenants in (1, 10, 100, 1_000)
        for waiting in (10_000, 100_000, 1_000_000)
    ),
    Scene(tenants=100, waiting=10_000, finished=1_000_000),
    *(Scene(tenants=tenants, waiting=10_000, finished_under_a_writer=40_000) for tenants in (1, 10, 100, 1_000)),
    *(Scene(tenants=tenants, waiting=10_000, finished_under_a_writer=400_000) for tenants in (10, 1_000)),
    *(Scene(tenants=tenants, waiting=10_000, unknown=200_000) for tenants in (1, 1_000)),
]
SMOKE = [Scene(tenants=2, waiting=2_000, finished=10, unknown=10, keyed=10, finished_under_a_writer=10)]


def run(options: Options) -> Report:
    """Measure the processor time of claims in a database for each scene, and of a claim of one job in the first."""
    report = Report("claim", "ms a job")
    scenes = dict.fromkeys(options.of(FULL, quick=QUICK, smoke=SMOKE))
    with open_environment() as bench, ExitStack() as stack:
        stages = {scene.name: Stage(bench, stack, scene, f"scene_{n}") for n, scene in enumerate(scenes)}
        lone = Stage(bench, stack, FLOOR, "alone", slots=1, size=1)
        contestants: dict[str, Contestant] = {"alone": lone.turn}
        contestants |= {name: stage.turn for name, stage in stages.items()}
        samples = options.sample(contestants, rounds=12, quick=12, warm_up=3)
        report.facts["buffers a job"] = {name: stage.buffers() for name, stage in stages.items()}
    report.add(samples)
    means = {name: sum(taken) / len(taken) for name, taken in samples.items()}
    report.facts["alone_cpu_ms"] = means.pop("alone")
    report.facts["worst_cpu_ms"] = max(means.values())
    report.wanted |= {"worst_cpu_ms": WORST, "alone_cpu_ms": ALONE}
    return report


class Stage:
    """A scene in a separate database, with a session of the engine."""

    def __init__(
        self,
        bench: BenchEnvironment,
        stack: ExitStack,
        scene: Scene,
        database: str,
        *,
        slots: int = SLOTS,
        size: int = SIZE,
    ) -> None:
        url = bench.database(database)
        logins = Logins(url, KEY.encode())
        self._admin = stack.enter_context(psycopg.connect(url, autocommit=True))
        install(self._admin, logins)
        add_company(self._admin, logins, "northwind", "Northwind Traders")
        self._set(stack, scene, url)
        session = stack.enter_context(service_session(logins, logins.engine, application="bench-claim"))
        self._engine, self._pid = Engine.on(session), session.info.backend_pid
        self._worker = self._engine.start_worker(backend="exec", host="bench", pid=1)
        self._claimer = Claimer(backend="exec", queues=["hot"], types=[("work", 1)])
        self._slots, self._size = slots, size

    def turn(self) -> list[float]:
        """Claim some batches and return the milliseconds of processor time of each job; its end is not measured."""
        pid = self._pid
        used, jobs = 0.0, 0
        for _ in range(CLAIMS):
            before = processor_time.milliseconds(pid)
            claimed = self._claimer.claim(self._engine, self._worker, slots=self._slots, sizes=lambda _: self._size)
            used += processor_time.milliseconds(pid) - before
            ids = [claim.job_id for batch in claimed for claim in batch]
            jobs += len(ids)
            # By their ids: the index of running tickets has dead entries, too.
            self._admin.execute("DELETE FROM turno.tickets WHERE job_id = ANY (%s)", [ids])
        assert jobs, "an empty claim measures nothing"  # noqa: S101
        return [used / jobs]

    def buffers(self) -> float:
        """Return how many pages the claim of one job reads, from memory or not."""
        with self._engine.transaction():
            before = self._pages()
            claimed = self._claimer.claim(self._engine, self._worker, slots=self._slots, sizes=lambda _: self._size)
            return (self._pages() - before) / sum(map(len, claimed))

    def _pages(self) -> float:
        row = self._engine.execute(PAGES).fetchone()
        assert row is not None, "an aggregate returns a row"  # noqa: S101
        return float(row[0])

    def _set(self, stack: ExitStack, scene: Scene, url: str) -> None:
        self._admin.execute(
            "INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role, state)"
            " SELECT 't' || i, c.id, 't_' || lpad(to_hex(i), 12, '0'), 'o' || i, 'r' || i, 'a' || i, 'active'"
            " FROM turno.companies c, generate_series(1, %s) AS i",
            [scene.tenants],
        )
        self._wait(scene.unknown, scene.tenants, "unknown")
        self._run_through(scene.finished, scene.tenants)
        self._wait_for_keys(scene.keyed, scene.tenants)
        self._admin.execute("VACUUM ANALYZE turno.tickets")
        if scene.finished_under_a_writer:
            writer = stack.enter_context(psycopg.connect(url))
            writer.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            writer.execute("SELECT pg_current_xact_id()")
            stack.callback(writer.rollback)
            self._run_through(scene.finished_under_a_writer, scene.tenants)
        self._wait(scene.waiting, scene.tenants, "work")
        if not scene.finished_under_a_writer:
            self._admin.execute("VACUUM ANALYZE turno.tickets")

    def _wait(self, count: int, tenants: int, job_type: str) -> None:
        self._admin.execute(
            "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
            " SELECT gen_random_uuid(), 1 + i %% %s, 'hot', %s, 1, i %% 3, clock_timestamp(), 'ready', 'exec'"
            " FROM generate_series(1, %s) AS i",
            [tenants, job_type, count],
        )

    def _wait_for_keys(self, count: int, tenants: int) -> None:
        self._admin.execute(
            "INSERT INTO turno.tickets"
            " (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, concurrency_key)"
            " SELECT gen_random_uuid(), 1 + i %% %s, 'hot', 'work', 1, i %% 3, clock_timestamp(), 'waiting', 'exec',"
            " 'key ' || i %% 1000 FROM generate_series(1, %s) AS i",
            [tenants, count],
        )

    def _run_through(self, count: int, tenants: int) -> None:
        if count:
            self._wait(count, tenants, "work")
            self._admin.execute("DELETE FROM turno.tickets WHERE type = 'work'")
