"""A transaction of the application's that writes a row and enqueues a job, and 10,000 at once, against PgQueuer's."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import turno
from benchmarks.environment import open_environment
from benchmarks.peer import PeerMissing
from benchmarks.pgqueuer_peer import PgQueuer
from benchmarks.report import Report
from benchmarks.sampling import timed
from handlers import build_registry
from handlers.batch_invoicing import BatchInvoicing
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.rights.public_rights import hosts, join_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant

FLOOR, PEER = "floor", "pgqueuer"
TURN = 20  # enqueues in a row, so that a peer's process is as warm as ours
ROLE = "bench_erp"
OURS = ("enqueue", "enqueue, key", "enqueue, no hint")
MANY = "all at once"
PAYLOAD = {"order_ids": [10248, 10249, 10250], "point_of_sale": 1}


def run(options: Options) -> Report:
    """Measure BEGIN, a row, the job and COMMIT; the floor is without the job. Many at once are a transaction."""
    report = Report("enqueue", "ms")
    with open_environment() as bench, ExitStack() as stack:
        report.facts[PEER] = "left out: ask for it with --peers"
        bench.tenant("suc0001")
        Engine.on(bench.admin).announce(of(build_registry()), 20)
        contestants = _ours(bench, stack)
        peer = _peer(bench, stack, report) if options.peers else None
        if peer is not None:
            contestants[PEER] = lambda: peer.turn(TURN, "beside")
        samples = options.sample(contestants, rounds=150, quick=20)
        session = stack.enter_context(_host(bench))
        at_once = options.of(10_000, quick=10_000, smoke=10)
        payloads = [PAYLOAD] * at_once
        together: dict[str, Contestant] = {MANY: timed(lambda: _many(session, payloads))}
        if peer is not None:
            together[f"{PEER}, {MANY}"] = lambda: peer.turn(at_once, "together")
        samples |= options.sample(together, rounds=9, quick=3)
    report.add(samples)
    report.facts["jobs/s at once"] = {name: round(1000 * at_once / report.figures[name].median) for name in together}
    if f"{PEER}, {MANY}" in samples:
        report.compare(samples, MANY, f"{PEER}, {MANY}", at_most=1.0)
    for name in OURS:
        report.compare(samples, name, FLOOR)
        if PEER in samples:
            report.compare(samples, name, PEER, at_most=1.2)
    return report


def _ours(bench: BenchEnvironment, stack: ExitStack) -> dict[str, Contestant]:
    admin, role = bench.admin, sql.Identifier(ROLE)
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(role))
    (result,) = (host for host in hosts(admin) if host.name == ROLE)
    join_host(admin, bench.logins, result)
    admin.execute("CREATE SCHEMA erp; CREATE TABLE erp.sales (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    admin.execute(sql.SQL("GRANT USAGE ON SCHEMA erp TO {0}; GRANT INSERT ON erp.sales TO {0}").format(role))
    floor, usual, quiet = (stack.enter_context(_host(bench)) for _ in range(3))
    quiet.execute("SET turno.notify = off")
    keys = map(str, count())
    return {
        FLOOR: _selling(floor),
        OURS[0]: _selling(usual, lambda: turno.enqueue(usual, "suc0001", BatchInvoicing, PAYLOAD)),
        OURS[1]: _selling(usual, lambda: turno.enqueue(usual, "suc0001", BatchInvoicing, PAYLOAD, key=next(keys))),
        OURS[2]: _selling(quiet, lambda: turno.enqueue(quiet, "suc0001", BatchInvoicing, PAYLOAD)),
    }


def _selling(session: psycopg.Connection[Any], enqueue: Callable[[], object] = lambda: None) -> Contestant:
    def sell() -> None:
        with session.transaction():
            session.execute("INSERT INTO erp.sales DEFAULT VALUES")
            enqueue()

    return timed(sell, times=TURN)


def _host(bench: BenchEnvironment) -> psycopg.Connection[Any]:
    """Return a session of the application's, in autocommit."""
    return psycopg.connect(make_conninfo(bench.url, user=ROLE, password="x"), autocommit=True)  # noqa: S106


def _many(session: psycopg.Connection[Any], payloads: list[dict[str, Any]]) -> None:
    made = turno.enqueue_many(session, "suc0001", BatchInvoicing, payloads)
    assert len(made) == len(payloads)  # noqa: S101 - a missing job measures nothing


def _peer(bench: BenchEnvironment, stack: ExitStack, report: Report) -> PgQueuer | None:
    try:
        peer = stack.enter_context(PgQueuer(bench.folder, bench.database(PEER)))
    except PeerMissing as missing:
        report.facts[PEER] = str(missing)
        return None
    report.facts[PEER] = peer.version
    return peer
