"""From an event in a transaction of the business to its subscribers' completed jobs, beside outboxes of others."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from benchmarks.environment import open_environment
from benchmarks.event_handlers import HANDLERS, REFERENCE
from benchmarks.other_queues import PATIENCE, PROCESSES, NotDrained, procrastinate
from benchmarks.outbox_process import TABLES
from benchmarks.peer import PeerMissing
from benchmarks.report import Report
from benchmarks.throughput import Pool
from turno.jobs.handler import Registry
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant

PUBLISHERS = 4  # concurrent business transactions
KEYS = 50
SUBSCRIBERS = (1, 3)
TURNO, OUTBOX, PEER = "turno", "outbox", "procrastinate"
ORDER = "turno, in order"
BUSINESS: LiteralString = "INSERT INTO public.business (number) VALUES (%(number)s)"
PUBLISH: LiteralString = (
    "SELECT jobs FROM turno.publish(tenant => 'suc0001', event => {},"
    " data => jsonb_build_object('number', %(number)s::integer){})"
)
ENDS = "SELECT count(*), max(finished_at) FROM {}.background_jobs WHERE status = 'completed' AND finished_at >= %s"
TELL = "INSERT INTO outbox (name, data) VALUES ('{}', jsonb_build_object('number', %(number)s::integer))"
DEFER: LiteralString = """
SELECT procrastinate_defer_jobs_v1(ARRAY(
    SELECT ROW('default', 'tally', 0, NULL, NULL, jsonb_build_object('number', %(number)s::integer), NULL)
           ::procrastinate_job_to_defer_v1 FROM generate_series(1, {})))
"""


@dataclass(frozen=True, slots=True)
class System:
    """How an event is published in a transaction of the business, and where the ends of its jobs stand.

    `ends` has how many jobs were completed since a moment, and when the last one was.
    """

    url: str
    publish: str
    ends: str
    subscribers: int

    def turn(self, events: int) -> Contestant:
        """Return a contestant that publishes `n` events and waits for all of their jobs; milliseconds an event."""
        wanted = events * self.subscribers

        def reply() -> Sequence[float]:
            with psycopg.connect(self.url, autocommit=True) as reader:
                begin = _row(reader, "SELECT clock_timestamp()")

                def completed() -> int:
                    count: int = _row(reader, self.ends, begin)[0]
                    return count

                with ThreadPoolExecutor(PUBLISHERS) as publishers:
                    shares = [range(number, events, PUBLISHERS) for number in range(PUBLISHERS)]
                    list(publishers.map(self._publish, shares))
                if not wait_until(lambda: completed() >= wanted, within=PATIENCE, every=0.05):
                    raise NotDrained(f"{completed()} of {wanted} jobs were completed")
                count, end = _row(reader, self.ends, begin)
            if count != wanted:
                raise NotDrained(f"{count} jobs were completed instead of {wanted}")
            return [(end - begin[0]).total_seconds() * 1000 / events]

        return reply

    def _publish(self, numbers: range) -> None:
        with psycopg.connect(self.url) as session:
            session.prepare_threshold = 0
            for number in numbers:
                session.execute(BUSINESS, {"number": number})
                session.execute(self.publish, {"number": number})
                session.commit()


def _row(reader: psycopg.Connection[Any], question: str, given: Sequence[object] = ()) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = reader.execute(question, given).fetchone()
    assert row is not None, "it counts"  # noqa: S101
    return row


def run(options: Options) -> Report:
    """Sample milliseconds an event, in turns; every job was completed exactly once."""
    report = Report("events", "ms an event")
    events = options.of(1_000, quick=200, smoke=8)
    with open_environment() as bench, ExitStack() as stack:
        contestants = {name: system.turn(events) for name, system in _ours(bench, stack).items()}
        contestants |= {name: system.turn(events) for name, system in _outbox(bench, stack).items()}
        report.facts[PEER] = "left out: ask for it with --peers"
        if options.peers:
            try:
                peers = _procrastinate(bench, stack, report)
            except PeerMissing as missing:
                report.facts[PEER] = str(missing)
            else:
                contestants |= {name: system.turn(events) for name, system in peers.items()}
        samples = options.sample(contestants, rounds=15, quick=3)
    report.add(samples)
    for count in SUBSCRIBERS:
        ours = f"{TURNO}, {count} subscribers"
        for other in (f"{OUTBOX}, {count} subscribers", f"{PEER}, {count} subscribers"):
            if other in samples:
                report.compare(samples, ours, other)
    report.compare(samples, ORDER, f"{TURNO}, 1 subscribers")
    report.facts["events/s"] = {name: round(1000 / figure.median) for name, figure in report.figures.items()}
    report.facts |= {"worker processes": PROCESSES, "publishing sessions": PUBLISHERS}
    return report


def _ours(bench: BenchEnvironment, stack: ExitStack) -> dict[str, System]:
    tenant = bench.tenant("suc0001")
    bench.admin.execute(
        "CREATE TABLE public.business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number integer)"
    )
    Engine.on(bench.admin).announce(of(Registry.of(HANDLERS)), 20)
    stack.enter_context(Pool(bench, REFERENCE))
    ends = ENDS.format(tenant.schema)
    systems = {
        f"{TURNO}, {count} subscribers": System(bench.url, PUBLISH.format(event, ""), ends, count)
        for count, event in zip(SUBSCRIBERS, ("'said.to_one'", "'said.to_three'"), strict=True)
    }
    key = f", key => 'k' || %(number)s::integer %% {KEYS}"
    return systems | {ORDER: System(bench.url, PUBLISH.format("'said.in_order'", key), ends, 1)}


def _outbox(bench: BenchEnvironment, stack: ExitStack) -> dict[str, System]:
    url = bench.database("outbox")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(TABLES)
    process = [sys.executable, "-m", "benchmarks.outbox_process"]
    for role in ("relay", *["worker"] * PROCESSES):
        stack.enter_context(_running([*process, role, url]))
    return {
        f"{OUTBOX}, {count} subscribers": System(
            url,
            TELL.format(name),
            "SELECT count(*), max(finished_at) FROM jobs WHERE state = 2 AND finished_at >= %s",
            count,
        )
        for count, name in zip(SUBSCRIBERS, ("one", "three"), strict=True)
    }


def _procrastinate(bench: BenchEnvironment, stack: ExitStack, report: Report) -> dict[str, System]:
    """Defer a job for each subscriber with its own function, as its documentation has it for SQL."""
    queue = procrastinate(bench)
    report.facts[PEER] = queue.version(PEER)
    with psycopg.connect(queue.url, autocommit=True) as admin:
        admin.execute(
            "CREATE TABLE public.business (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number integer)"
        )
    for _ in range(PROCESSES):
        stack.enter_context(_running([*queue.worker, "stay"]))
    return {
        f"{PEER}, {count} subscribers": System(
            queue.url,
            DEFER.format(count),
            "SELECT count(*), max(at) FROM procrastinate_events WHERE type = 'succeeded' AND at >= %s",
            count,
        )
        for count in SUBSCRIBERS
    }


@contextmanager
def _running(command: list[str]) -> Iterator[None]:
    """Run a peer's worker in the block, after its line "ready"."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - opened with a pipe
        try:
            if process.stdout.readline().strip() != "ready":
                raise NotDrained(f"{command} did not begin")
            yield
        finally:
            process.terminate()
