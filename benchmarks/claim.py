"""What a claim costs a job, whatever waits, whoever waits, whatever ended before and whoever holds a transaction."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from benchmarks.environment import KEY, open_ground
from benchmarks.report import Report
from benchmarks.sampling import interleaved, milliseconds
from turno.store.engine import tickets
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import Ground
    from benchmarks.sampling import Contestant

BATCH = 8  # tickets a claim
AT_MOST = 1.5
TYPES = [("work", 1)]


@dataclass(frozen=True, slots=True)
class Scene:
    """Who waits with how much, and what else the tickets' table holds or held."""

    tenants: int
    waiting: int
    finished: int = 0
    finished_under_a_writer: int = 0
    unknown: int = 0

    @property
    def name(self) -> str:
        """Say it in words."""
        extra = {
            "finished": self.finished,
            "finished under an open writer": self.finished_under_a_writer,
            "of an unknown type": self.unknown,
        }
        words = [f"{self.tenants:,} tenants, {self.waiting:,} waiting"]
        return ", ".join(words + [f"{count:,} {what}" for what, count in extra.items() if count])


FLOOR = Scene(tenants=10, waiting=10_000)
QUICK = [
    FLOOR,
    Scene(tenants=1, waiting=10_000),
    Scene(tenants=1_000, waiting=10_000),
    Scene(tenants=1_000, waiting=300_000),
    Scene(tenants=100, waiting=10_000, finished=100_000),
    Scene(tenants=1, waiting=10_000, finished_under_a_writer=40_000),
    Scene(tenants=100, waiting=10_000, finished_under_a_writer=40_000),
    Scene(tenants=10, waiting=10_000, unknown=200_000),
]
FULL = [
    FLOOR,
    *(
        Scene(tenants=tenants, waiting=waiting)
        for tenants in (1, 10, 100, 1_000)
        for waiting in (10_000, 100_000, 1_000_000)
        if (tenants, waiting) != (FLOOR.tenants, FLOOR.waiting)
    ),
    Scene(tenants=100, waiting=10_000, finished=1_000_000),
    *(Scene(tenants=tenants, waiting=10_000, finished_under_a_writer=40_000) for tenants in (1, 10, 100, 1_000)),
    *(Scene(tenants=tenants, waiting=10_000, unknown=200_000) for tenants in (1, 1_000)),
]


def run(options: Options) -> Report:
    """Measure claims in a database for each scene; the ratio is the dearest scene's to the cheapest one's."""
    report = Report("claim", "ms a job")
    scenes = QUICK if options.quick else FULL
    with open_ground() as ground, ExitStack() as stack:
        stages = {scene.name: Stage(ground, stack, scene, f"scene_{n}") for n, scene in enumerate(scenes)}
        contestants: dict[str, Contestant] = {name: stage.turn for name, stage in stages.items()}
        samples = interleaved(contestants, rounds=60 if options.quick else 300, warm_up=5, seconds=options.seconds / 2)
        report.facts["buffers a job"] = {name: stage.buffers() for name, stage in stages.items()}
    report.add(samples)
    for name in list(stages)[1:]:
        report.compare(samples, name, FLOOR.name, at_most=AT_MOST)
    medians = [statistics.median(took) for took in samples.values()]
    report.facts["ratio"] = max(medians) / min(medians)
    report.wanted["ratio"] = AT_MOST
    return report


class Stage:
    """A scene in a database of its own, and one engine's session in it."""

    def __init__(self, ground: Ground, stack: ExitStack, scene: Scene, database: str) -> None:
        url = ground.database(database)
        logins = Logins(url, KEY.encode())
        self._admin = stack.enter_context(psycopg.connect(url, autocommit=True))
        install(self._admin, logins)
        add_company(self._admin, logins, "northwind", "Northwind Traders")
        self._set(stack, scene, url)
        self._engine = stack.enter_context(service_session(logins, logins.engine, application="bench-claim"))
        self._worker = tickets.start_worker(self._engine, backend="exec", host="bench", pid=1)

    def turn(self) -> list[float]:
        """Claim a batch and return the milliseconds of each job; its end is not measured."""
        took = milliseconds(self._claim)
        self._admin.execute("DELETE FROM turno.tickets WHERE state = 'running'")
        return [took / BATCH]

    def buffers(self) -> float:
        """Return how many pages the claim of one job reads, from memory or not."""
        return statistics.median(self._pages_of_a_claim() / BATCH for _ in range(20))

    def _claim(self) -> None:
        claims = tickets.claim(self._engine, self._worker, queues=["hot"], types=TYPES, backend="exec", slots=BATCH)
        assert len(claims) == BATCH, claims  # noqa: S101 - what was not claimed was not measured

    def _pages_of_a_claim(self) -> int:
        (row,) = self._engine.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
            " SELECT * FROM claim(%s, '{hot}', '{work}', '{1}', 'exec', %s, '{}')",
            (self._worker, BATCH),
        ).fetchall()
        self._admin.execute("DELETE FROM turno.tickets WHERE state = 'running'")
        plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    def _set(self, stack: ExitStack, scene: Scene, url: str) -> None:
        self._admin.execute(
            "INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role, state)"
            " SELECT 't' || i, c.id, 't_' || lpad(to_hex(i), 12, '0'), 'o' || i, 'r' || i, 'a' || i, 'active'"
            " FROM turno.companies c, generate_series(1, %s) AS i",
            [scene.tenants],
        )
        self._wait(scene.unknown, scene.tenants, "unknown")
        self._run_through(scene.finished, scene.tenants)
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

    def _run_through(self, count: int, tenants: int) -> None:
        if count:
            self._wait(count, tenants, "work")
            self._admin.execute(
                "UPDATE turno.tickets SET state = 'running', worker_id = gen_random_uuid(), token = gen_random_uuid()"
                " WHERE state = 'ready' AND type = 'work'"
            )
            self._admin.execute("DELETE FROM turno.tickets WHERE state = 'running'")
