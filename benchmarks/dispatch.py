"""One durable enqueue in a running process, against a transaction of one INSERT on the same connection."""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import count, cycle
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from psycopg import sql

from benchmarks.environment import open_environment
from benchmarks.peer import PeerMissing
from benchmarks.pgqueuer_peer import PgQueuer
from benchmarks.report import Report
from benchmarks.sampling import timed
from handlers.batch_invoicing import BatchInvoicing
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.jobs.new_job import NewJob
from turno.tenancy.identity.session import call_as_api, service_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant
    from turno.tenancy.identity.tenant import Tenant

FLOOR, PEER = "floor", "pgqueuer"
TENANTS = 10
OURS = ("enqueue", "enqueue, quota", "enqueue, limits", f"enqueue, limits, {TENANTS} tenants")
LIMITS = json.dumps(  # counted, never reached
    {f"{resource}_per_day_per_{owner}": 10**8 for resource in ("jobs", "payload_mb") for owner in ("user", "tenant")}
)
TURN = 20  # enqueues in a row, so that a peer's process is as warm as ours
OPEN_JOBS = 10  # a user has at most so many


def run(options: Options) -> Report:
    """Measure enqueueing with the role switch, an idempotency key and the event, without and with limits."""
    report = Report("dispatch", "ms")
    with open_environment() as bench, ExitStack() as stack:
        report.facts[PEER] = "left out: ask for it with --peers"
        contestants = _ours(bench, stack)
        if options.peers:
            contestants |= _peer(bench, stack, report)
        samples = options.sample(contestants, rounds=150, quick=20)
    report.add(samples)
    for name in OURS:
        report.compare(samples, name, FLOOR)
        if PEER in samples:
            report.compare(samples, name, PEER, at_most=1.0)
    return report


def _ours(bench: BenchEnvironment, stack: ExitStack) -> dict[str, Contestant]:
    tenants = [bench.tenant(f"suc{number:04d}") for number in range(TENANTS)]
    web = stack.enter_context(service_session(bench.logins, bench.logins.web, application="bench-web"))
    insert = insert_into_floor(bench)
    return {
        FLOOR: timed(lambda: web.execute(insert), times=TURN),
        OURS[0]: _enqueue(web, tenants[:1], None),
        OURS[1]: _enqueue(web, tenants[:1], 20),
        OURS[2]: _enqueue(web, tenants[:1], 20, LIMITS),
        OURS[3]: _enqueue(web, tenants, 20, LIMITS),
    }


def insert_into_floor(bench: BenchEnvironment) -> bytes:
    """Make a table that the web's role may insert into, and return the least that a durable transaction can do."""
    web = sql.Identifier(bench.logins.web)
    bench.admin.execute(
        sql.SQL(
            "CREATE TABLE turno.floor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, i integer NOT NULL,"
            " at timestamptz NOT NULL DEFAULT now());"
            "GRANT INSERT ON turno.floor TO {}"
        ).format(web)
    )
    return b"INSERT INTO turno.floor (i) VALUES (1)"


def _enqueue(
    web: psycopg.Connection[Any], tenants: list[Tenant], limit: int | None, day_limits: str | None = None
) -> Contestant:
    jobs = zip(cycle(tenants), _new_jobs(limit, day_limits), strict=False)

    def enqueue_next() -> None:
        tenant, job = next(jobs)
        row = call_as_api(web, tenant, ENQUEUE, submission(job, pending_limit=limit, day_limits=day_limits))
        assert row["verdict"] == "accepted", row  # noqa: S101 - a refusal measures nothing

    return timed(enqueue_next, times=TURN)


def _new_jobs(limit: int | None, day_limits: str | None) -> Iterator[NewJob]:
    payload = {"order_ids": list(range(10_248, 10_258)), "point_of_sale": 1}
    for number in count():
        yield NewJob.of(
            BatchInvoicing,
            payload,
            backend="exec",
            user_id=f"ana-{limit}-{day_limits is not None}-{number // OPEN_JOBS}",
            idempotency_key=str(uuid4()),
            correlation_id=str(uuid4()),
        )


def _peer(bench: BenchEnvironment, stack: ExitStack, report: Report) -> dict[str, Contestant]:
    try:
        peer = stack.enter_context(PgQueuer(bench.folder, bench.database("pgqueuer")))
    except PeerMissing as missing:
        report.facts[PEER] = str(missing)
        return {}
    report.facts[PEER] = peer.version
    return {PEER: lambda: peer.turn(TURN)}
