"""Readers read each outcome once, and the statistics have its sums by minute, tenant and type."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from tests.attempt_here import attempt
from tests.misbehaving_handlers import Odd
from turno.capabilities.statistics import counts
from turno.capabilities.statistics.metrics import BOUNDS_MS, cumulative, evenness
from turno.capabilities.webhooks.delivery import make_due
from turno.servers.wait import wait_until
from turno.store.engine import announcements
from turno.store.operator.counts import counted_until, ended_lately, worst_tenants
from turno.store.statements import value_of
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant

HOUR, FIVE_MINUTES, MINUTE = timedelta(hours=1), timedelta(minutes=5), timedelta(minutes=1)
Operator = psycopg.Connection[Any]
INSERT = (
    "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"
    " VALUES (%s, 'import', 'failed', ARRAY[1], ARRAY[1])"
)


@pytest.fixture
def operator(world: ExampleInstallation) -> Iterator[Operator]:
    with service_session(world.logins, world.logins.operator, application="test") as session:
        yield session


@pytest.fixture(autouse=True)
def known_types(world: ExampleInstallation) -> Iterator[None]:
    world.rows(
        "INSERT INTO turno.handlers (type, version, queue, max_attempts, pending_limit)"
        " VALUES ('import', 1, 'hot', 4, 20) ON CONFLICT DO NOTHING"
    )
    yield
    world.rows("DELETE FROM turno.handlers WHERE type = 'import'")


def ended(
    world: ExampleInstallation,
    tenant: Tenant,
    outcome: str = "completed",
    *,
    job_type: str = "import",
    wait: int = 10,
    run: int | None = 100,
    ago: str = "0",
) -> None:
    world.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms, at)"
        " VALUES (%s, %s, %s, ARRAY[%s], ARRAY[%s]::integer[], clock_timestamp() - %s::interval)",
        tenant.id, job_type, outcome, wait, run, ago,
    )  # fmt: skip


def count(world: ExampleInstallation, *, limit: int = 100_000) -> int:
    return world.engine.count_outcomes(limit)


def test_readers_read_each_outcome_once_in_any_order_of_commits(world: ExampleInstallation, operator: Operator) -> None:
    """Transactions that insert before others commit after them, and after other outcomes were read."""
    readers: dict[str, Callable[[], int]] = {
        "statistics": lambda: world.engine.count_outcomes(1000),
        "webhooks": lambda: make_due(world.engine, 1000),
    }
    with ExitStack() as stack:
        writers = [stack.enter_context(psycopg.connect(world.url)) for _ in range(4)]
        for writer in writers:
            writer.execute(INSERT, [world.one.id])
        read = Counter[str]()
        for number, writer in enumerate(reversed(writers)):
            writer.commit()
            ended(world, world.one)
            for name in sorted(readers, reverse=bool(number % 2))[: 1 + number % 2]:
                read[name] += readers[name]()
        for name, reader in readers.items():
            while read[name] <= 8 and (outcomes_read := reader()):
                read[name] += outcomes_read
    assert read == {"statistics": 8, "webhooks": 8}
    assert counts.by_type(operator)["import"].outcomes == {"completed": 4, "failed": 4}


def test_concurrent_readers_count_each_outcome_once(world: ExampleInstallation) -> None:
    for _ in range(40):
        ended(world, world.one)

    def read(function: str) -> int:
        with psycopg.connect(world.url, autocommit=True) as session:
            found = 0
            while number := value_of(session, sql.SQL("SELECT turno.{}(3)").format(sql.Identifier(function))):
                found += number
            return found

    with ThreadPoolExecutor(4) as pool:
        names = ["count_outcomes", "webhooks_due"] * 2
        found = Counter[str]()
        for name, number in zip(names, pool.map(read, names), strict=True):
            found[name] += number
    assert found == {"count_outcomes": 40, "webhooks_due": 40}


def test_a_reader_waits_for_the_numbers_of_another(world: ExampleInstallation) -> None:
    """Otherwise it gives a later outcome the number that its counterpart has read already."""
    statement = sql.SQL("SELECT count(*) FROM turno.outcomes_read({}, 1000)")
    first, second = (row["reader"] for row in world.rows("SELECT reader FROM turno.outcome_readers LIMIT 2"))

    def read(session: Operator, reader: str) -> int:
        return int(value_of(session, statement.format(reader)))

    with ExitStack() as stack:
        one, other = (stack.enter_context(psycopg.connect(world.url, options="-c search_path=turno")) for _ in range(2))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        ended(world, world.one)
        found = Counter({first: read(one, first)})
        ended(world, world.one)
        waiting = pool.submit(read, other, second)
        blocked = "SELECT pg_blocking_pids(%s) <> '{}' AS blocked"
        assert wait_until(lambda: world.rows(blocked, other.info.backend_pid)[0]["blocked"], within=30)
        one.commit()
        found[second] += waiting.result()
        other.commit()
        for session, reader in ((one, first), (other, second)):
            while number := read(session, reader):
                found[reader] += number
            session.commit()
    assert found == {first: 2, second: 2}


def test_a_reading_that_fails_is_repeated(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one)
    with world.engine.transaction(force_rollback=True):
        assert count(world) == 1
    assert counts.by_tenant(operator) == []
    assert [count(world), count(world)] == [1, 0]


def test_outcomes_are_kept_until_all_readers_have_read_them(world: ExampleInstallation) -> None:
    ended(world, world.one, ago="31 days")
    count(world)
    prune = "SELECT turno.prune('2 days', '30 days', 1000)"
    world.rows(prune)
    assert len(world.rows("SELECT 1 FROM turno.outcomes")) == 1
    assert make_due(world.engine, 1000) == 1
    world.rows(prune)
    assert world.rows("SELECT 1 FROM turno.outcomes") == []


def test_statistics_have_the_time_of_the_last_count(world: ExampleInstallation, operator: Operator) -> None:
    (before,) = world.rows("SELECT clock_timestamp() AS now")
    count(world)
    counted_at = counted_until(operator)
    assert counted_at is not None
    assert counted_at >= before["now"]


def test_totals_have_attempts_waits_and_runs_of_a_type(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one, wait=10, run=100)
    ended(world, world.other, "cancelled", wait=11, run=None)
    for claim in ("rescued", "claim_lost"):
        ended(world, world.other, claim, wait=5, run=None)
    count(world)
    one = counts.by_type(operator)["import"]
    assert one.outcomes == {"completed": 1, "cancelled": 1, "rescued": 1, "claim_lost": 1}
    assert (one.submitted, one.attempts, one.wait_ms, one.run_ms) == (2, 1, 21, {"completed": 100})
    assert cumulative(one.waits)[BOUNDS_MS.index(10)] == 1  # at most ten
    assert cumulative(one.waits)[BOUNDS_MS.index(20)] == 2
    assert one.runs["completed"] == Counter({BOUNDS_MS.index(100): 1})


def test_totals_of_a_tenant_are_its_own(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one)
    ended(world, world.other, "failed")
    count(world)
    found = {(one["tenant"], one["outcome"]): one["outcomes"] for one in counts.by_tenant(operator)}
    assert found == {(world.one.slug, "completed"): 1, (world.other.slug, "failed"): 1}


def test_a_chart_of_one_tenant_shows_nothing_of_another(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one, wait=9)
    ended(world, world.other, "failed", wait=90)
    count(world)
    (point,) = counts.over_time(operator, window=HOUR, tenant=world.one.slug)
    assert (point.completed, point.failed) == (1, 0)
    assert point.wait_p95_ms is not None
    assert 5 < point.wait_p95_ms <= 10
    assert counts.over_time(operator, window=HOUR, tenant="nobody") == []
    for by in ("", "tenant"):
        for step in (MINUTE, FIVE_MINUTES):
            assert counts.over_time(operator, window=HOUR, step=step, companies=["nobody"], by=by) == []
    assert ended_lately(operator, ["nobody"])["completed"] == 0
    assert ended_lately(operator, None) == {"completed": 1, "failed": 1}


def test_a_chart_has_a_point_for_each_step_and_line(world: ExampleInstallation, operator: Operator) -> None:
    for ago in ("0", "6 minutes", "2 hours"):
        ended(world, world.one, ago=ago)
    ended(world, world.one, job_type="export")
    count(world)
    points = counts.over_time(operator, window=timedelta(minutes=30), by="type")
    assert [(point.line, point.ended) for point in points] == [("import", 1), *sorted([("(other)", 1), ("import", 1)])]
    (line,) = {point.line for point in counts.over_time(operator, window=HOUR, by="type", lines=1)}
    assert line == "import"
    points = counts.over_time(operator, window=HOUR, step=timedelta(hours=1), job_type="import")
    assert sum(point.ended for point in points) == 2


@pytest.mark.parametrize("by", ["", "type", "tenant"])
@pytest.mark.parametrize("whose", [{}, {"companies": ["northwind"]}, {"tenant": "suc0002"}])
def test_a_chart_by_five_minutes_adds_up_to_one_by_minutes(
    world: ExampleInstallation, operator: Operator, by: counts.By, whose: dict[str, Any]
) -> None:
    for number, outcome in enumerate(("completed", "completed", "failed", "cancelled", "retried", "crashed") * 3):
        tenant = world.one if number % 3 else world.other
        ended(world, tenant, outcome, wait=number * number, ago=f"{7 * number} minutes")
    while count(world, limit=7):
        pass

    def lines(step: timedelta) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for point in counts.over_time(operator, window=timedelta(hours=3), step=step, by=by, **whose):
            ends = {name: getattr(point, name) for name in ("completed", "failed", "cancelled", "retried")}
            found.setdefault(point.line, Counter()).update(ends)
        return found

    assert lines(FIVE_MINUTES) == lines(MINUTE)
    assert sum(lines(MINUTE)[next(iter(lines(MINUTE)))].values()) > 0
    points = counts.over_time(operator, window=timedelta(hours=3), step=timedelta(hours=6), by=by, **whose)
    assert all(point.wait_p95_ms is not None and point.run_mean_ms == 100 for point in points)


def test_unannounced_types_share_a_label_except_in_tenant(world: ExampleInstallation, operator: Operator) -> None:
    for number in range(20):
        ended(world, world.one, job_type=f"made-up-{number}")
    count(world)
    assert set(counts.by_type(operator)) == {"(other)"}
    assert {point.line for point in counts.over_time(operator, window=HOUR, by="type")} == {"(other)"}
    assert len(counts.over_time(operator, window=HOUR, by="type", tenant=world.one.slug, lines=50)) >= 20


def test_minutes_are_forgotten_after_two_days_and_totals_never(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one, ago="49 hours")
    ended(world, world.one)
    world.sweep()
    scopes = world.rows("SELECT sign(scope) AS scope FROM turno.statistics WHERE minute > '-infinity' ORDER BY 1")
    assert [row["scope"] for row in scopes] == [-1, 0, 1]
    assert counts.by_type(operator)["import"].outcomes == {"completed": 2}


def test_a_dry_run_counts_and_forgets_nothing(world: ExampleInstallation) -> None:
    ended(world, world.one, ago="49 hours")
    count(world)
    ended(world, world.one)
    before = world.rows("SELECT c::text AS said FROM turno.statistics c ORDER BY 1")
    assert world.sweep(dry_run=True)["counted"] == 1
    assert world.rows("SELECT c::text AS said FROM turno.statistics c ORDER BY 1") == before
    assert len(world.rows("SELECT 1 FROM turno.outcomes WHERE position IS NULL")) == 1


def test_every_end_of_an_attempt_is_counted_with_its_own_time(world: ExampleInstallation) -> None:
    for how, outcome in (("ok", "completed"), ("error", "retried"), ("reschedule_after", "rescheduled")):
        attempt(world, world.enqueue({"how": how}, handler=Odd))
        (row,) = world.rows("SELECT outcome, run_ms FROM turno.outcomes")
        world.rows("DELETE FROM turno.outcome_batches")
        assert row["outcome"] == outcome
        assert row["run_ms"] is not None


@pytest.mark.parametrize(("crashes", "outcome"), [(0, "crashed"), (2, "failed")])
def test_rescue_is_counted_beside_the_outcome(world: ExampleInstallation, crashes: int, outcome: str) -> None:
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    worker = world.engine.start_worker(backend="exec", host="gone", pid=1, types=[(Odd.type, 1)])
    claim = world.engine.claim_job(worker, job_id, types=[(Odd.type, 1)])
    assert claim
    world.rows("UPDATE turno.tickets SET attempt = %s WHERE job_id = %s", crashes + 1, job_id)
    world.rows("UPDATE background_jobs SET crashes = %s, attempt = %s WHERE id = %s", crashes, crashes, job_id)
    world.rows("SELECT attempt_open(%s, %s, 'here', 0, clock_timestamp()) AS shown", job_id, claim.token)
    world.engine.rescue(world.one.schema, job_id, claim.token, cause="lost", retry_in=timedelta(0), counted=True)
    rows = world.rows("SELECT outcome, run_ms IS NOT NULL AS ran FROM turno.outcomes ORDER BY at")
    assert [(row["outcome"], row["ran"]) for row in rows] == [("rescued", False), (outcome, True)]


def test_chart_has_the_tenants_with_most_ended_jobs(world: ExampleInstallation, operator: Operator) -> None:
    for outcome in ("completed", "failed", "retried"):
        ended(world, world.one, outcome)
    for _ in range(4):
        ended(world, world.other, "retried")
    count(world)
    points = counts.over_time(operator, window=HOUR, by="tenant", lines=1)
    assert {point.line for point in points} == {world.one.slug}


def test_fairness_is_measured_by_weights_of_waiting_tenants(world: ExampleInstallation, operator: Operator) -> None:
    for tenant, run in ((world.one, 300), (world.other, 100)):
        ended(world, tenant, run=run)
    count(world)
    assert evenness(operator) == 1  # no job waits
    for tenant in (world.one, world.other):
        world.enqueue({"order_ids": [1]}, tenant=tenant)
    assert evenness(operator) == pytest.approx(0.8)
    world.rows("UPDATE turno.tenants SET weight = 3 WHERE id = %s", world.one.id)
    try:
        assert evenness(operator) == pytest.approx(1)
    finally:
        world.rows("UPDATE turno.tenants SET weight = 1")


def test_waiting_jobs_are_counted_by_backend_and_type(world: ExampleInstallation, operator: Operator) -> None:
    world.engine.announce([announcements.Announcement("batch_invoicing", 1, "cold", 4)], 20)
    for tenant in (world.one, world.other):
        world.enqueue({"order_ids": [1]}, tenant=tenant)
    world.rows("UPDATE turno.tickets SET run_at = now() - interval '1 min'")
    (one,) = counts.queued(operator)
    assert (one["tenant"], one["type"], one["ready"], one["running"]) == ("", "batch_invoicing", 2, 0)
    assert 60 <= one["oldest_wait"] < 120
    assert [one["tenant"] for one in counts.queued(operator, tenants=True)] == [world.one.slug, world.other.slug]


def test_only_workers_with_heartbeats_are_alive(world: ExampleInstallation, operator: Operator) -> None:
    for pid in (1, 2):
        world.engine.start_worker(backend="pool", host="here", pid=pid)
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s' WHERE pid = 2")
    found = {one["backend"]: (one["alive"], one["silent"]) for one in counts.served(operator, timedelta(seconds=30))}
    assert found == {"exec": (0, 0), "pool": (1, 1), "rabbitmq": (0, 0)}


def test_bucket_bounds_equal_the_database(world: ExampleInstallation) -> None:
    (row,) = world.rows("SELECT turno.outcome_bounds() AS bounds")
    assert tuple(row["bounds"]) == BOUNDS_MS


@pytest.mark.parametrize("by", ["", "tenant"])
def test_percentiles_of_single_waits_are_exact(world: ExampleInstallation, operator: Operator, by: counts.By) -> None:
    for wait in (3, 1234, 4321):  # each in a separate bucket
        ended(world, world.one, wait=wait)
        count(world)
    (point,) = counts.over_time(operator, window=HOUR, step=HOUR, by=by)
    assert (point.wait_p50_ms, point.wait_p95_ms) == (1234, 4321)
    (share,) = worst_tenants(operator)
    assert (share["wait_p50_ms"], share["wait_p95_ms"]) == (1234, 4321)


@pytest.mark.parametrize("spread", ["n * 20", "n * n", "4000 + n", "100 + 90000000 * (n / 190)"])
def test_percentiles_are_within_their_buckets(world: ExampleInstallation, operator: Operator, spread: str) -> None:
    world.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"  # noqa: S608
        f" SELECT %s, 'import', 'completed', array_agg({spread}), array_agg(1) FROM generate_series(1, 200) AS n",
        world.one.id,
    )
    (true,) = world.rows(
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_ms) AS p50,"
        " percentile_disc(0.95) WITHIN GROUP (ORDER BY wait_ms) AS p95 FROM turno.outcomes"
    )
    bounds = (0, *BOUNDS_MS, float("inf"))
    count(world)
    for tenant in (None, world.one.slug):
        (point,) = counts.over_time(operator, window=HOUR, tenant=tenant)
        for percentile, found in ((true["p50"], point.wait_p50_ms), (true["p95"], point.wait_p95_ms)):
            low = max(bound for bound in bounds if bound < percentile)
            assert found is not None
            assert low < found <= min(bound for bound in bounds if bound >= percentile)


def test_statistics_tables_are_written_by_functions_alone(operator: Operator) -> None:
    for table in ("outcome_batches", "outcome_readers", "statistics", "dead_letter_counts"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            operator.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
