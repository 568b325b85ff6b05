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

from tests.attempt_in_process import attempt
from tests.misbehaving_handlers import Faulty
from turno.capabilities.statistics import counts
from turno.capabilities.statistics.metrics import BOUNDS_MS, cumulative, evenness
from turno.capabilities.webhooks.delivery import make_due
from turno.store.engine import announcements
from turno.store.operator.counts import counted_until, ended_lately, worst_tenants
from turno.store.statements import value_of
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until

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
def operator(example: ExampleInstallation) -> Iterator[Operator]:
    with service_session(example.logins, example.logins.operator, application="test") as session:
        yield session


@pytest.fixture(autouse=True)
def known_types(example: ExampleInstallation) -> Iterator[None]:
    example.rows(
        "INSERT INTO turno.handlers (type, version, queue, max_attempts, pending_limit)"
        " VALUES ('import', 1, 'hot', 4, 20) ON CONFLICT DO NOTHING"
    )
    yield
    example.rows("DELETE FROM turno.handlers WHERE type = 'import'")


def ended(
    example: ExampleInstallation,
    tenant: Tenant,
    outcome: str = "completed",
    *,
    job_type: str = "import",
    wait: int = 10,
    run: int | None = 100,
    ago: str = "0",
) -> None:
    example.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms, at)"
        " VALUES (%s, %s, %s, ARRAY[%s], ARRAY[%s]::integer[], clock_timestamp() - %s::interval)",
        tenant.id, job_type, outcome, wait, run, ago,
    )  # fmt: skip


def count(example: ExampleInstallation, *, limit: int = 100_000) -> int:
    return example.engine.count_outcomes(limit)


def test_readers_read_each_outcome_once_in_any_order_of_commits(
    example: ExampleInstallation, operator: Operator
) -> None:
    """Transactions that insert before others commit after them, and after other outcomes were read."""
    readers: dict[str, Callable[[], int]] = {
        "statistics": lambda: example.engine.count_outcomes(1000),
        "webhooks": lambda: make_due(example.engine, 1000),
    }
    with ExitStack() as stack:
        writers = [stack.enter_context(psycopg.connect(example.url)) for _ in range(4)]
        for writer in writers:
            writer.execute(INSERT, [example.one.id])
        read = Counter[str]()
        for number, writer in enumerate(reversed(writers)):
            writer.commit()
            ended(example, example.one)
            for name in sorted(readers, reverse=bool(number % 2))[: 1 + number % 2]:
                read[name] += readers[name]()
        for name, reader in readers.items():
            while read[name] <= 8 and (outcomes_read := reader()):
                read[name] += outcomes_read
    assert read == {"statistics": 8, "webhooks": 8}
    assert counts.by_type(operator)["import"].outcomes == {"completed": 4, "failed": 4}


def test_concurrent_readers_count_each_outcome_once(example: ExampleInstallation) -> None:
    for _ in range(40):
        ended(example, example.one)

    def read(function: str) -> int:
        with psycopg.connect(example.url, autocommit=True) as session:
            result = 0
            while number := value_of(session, sql.SQL("SELECT turno.{}(3)").format(sql.Identifier(function))):
                result += number
            return result

    with ThreadPoolExecutor(4) as pool:
        names = ["count_outcomes", "webhooks_due"] * 2
        result = Counter[str]()
        for name, number in zip(names, pool.map(read, names), strict=True):
            result[name] += number
    assert result == {"count_outcomes": 40, "webhooks_due": 40}


def test_a_reader_waits_for_the_numbers_of_another(example: ExampleInstallation) -> None:
    """Otherwise it gives a later outcome the number that its counterpart has read already."""
    statement = sql.SQL("SELECT count(*) FROM turno.outcomes_read({}, 1000)")
    first, second = (row["reader"] for row in example.rows("SELECT reader FROM turno.outcome_readers LIMIT 2"))

    def read(session: Operator, reader: str) -> int:
        return int(value_of(session, statement.format(reader)))

    with ExitStack() as stack:
        blocking, other = (
            stack.enter_context(psycopg.connect(example.url, options="-c search_path=turno")) for _ in range(2)
        )
        pool = stack.enter_context(ThreadPoolExecutor(1))
        ended(example, example.one)
        result = Counter({first: read(blocking, first)})
        ended(example, example.one)
        waiting = pool.submit(read, other, second)
        blocked = "SELECT pg_blocking_pids(%s) <> '{}' AS blocked"
        assert wait_until(lambda: example.rows(blocked, other.info.backend_pid)[0]["blocked"], within=30)
        blocking.commit()
        result[second] += waiting.result()
        other.commit()
        for session, reader in ((blocking, first), (other, second)):
            while number := read(session, reader):
                result[reader] += number
            session.commit()
    assert result == {first: 2, second: 2}


def test_a_reading_that_fails_is_repeated(example: ExampleInstallation, operator: Operator) -> None:
    ended(example, example.one)
    with example.engine.transaction(force_rollback=True):
        assert count(example) == 1
    assert counts.by_tenant(operator) == []
    assert [count(example), count(example)] == [1, 0]


def test_outcomes_are_kept_until_all_readers_have_read_them(example: ExampleInstallation) -> None:
    ended(example, example.one, ago="31 days")
    count(example)
    prune = "SELECT turno.prune('2 days', '30 days', 1000)"
    example.rows(prune)
    assert len(example.rows("SELECT 1 FROM turno.outcomes")) == 1
    assert make_due(example.engine, 1000) == 1
    example.rows(prune)
    assert example.rows("SELECT 1 FROM turno.outcomes") == []


def test_statistics_have_the_time_of_the_last_count(example: ExampleInstallation, operator: Operator) -> None:
    (before,) = example.rows("SELECT clock_timestamp() AS now")
    count(example)
    counted_at = counted_until(operator)
    assert counted_at is not None
    assert counted_at >= before["now"]


def test_totals_have_attempts_waits_and_runs_of_a_type(example: ExampleInstallation, operator: Operator) -> None:
    ended(example, example.one, wait=10, run=100)
    ended(example, example.other, "cancelled", wait=11, run=None)
    for claim in ("rescued", "claim_lost"):
        ended(example, example.other, claim, wait=5, run=None)
    count(example)
    counted = counts.by_type(operator)["import"]
    assert counted.outcomes == {"completed": 1, "cancelled": 1, "rescued": 1, "claim_lost": 1}
    assert (counted.submitted, counted.attempts, counted.wait_ms, counted.run_ms) == (2, 1, 21, {"completed": 100})
    assert cumulative(counted.waits)[BOUNDS_MS.index(10)] == 1  # at most ten
    assert cumulative(counted.waits)[BOUNDS_MS.index(20)] == 2
    assert counted.runs["completed"] == Counter({BOUNDS_MS.index(100): 1})


def test_totals_of_a_tenant_are_its_own(example: ExampleInstallation, operator: Operator) -> None:
    ended(example, example.one)
    ended(example, example.other, "failed")
    count(example)
    tenant = {(row["tenant"], row["outcome"]): row["outcomes"] for row in counts.by_tenant(operator)}
    assert tenant == {(example.one.slug, "completed"): 1, (example.other.slug, "failed"): 1}


def test_a_chart_of_one_tenant_shows_nothing_of_another(example: ExampleInstallation, operator: Operator) -> None:
    ended(example, example.one, wait=9)
    ended(example, example.other, "failed", wait=90)
    count(example)
    (point,) = counts.over_time(operator, window=HOUR, tenant=example.one.slug)
    assert (point.completed, point.failed) == (1, 0)
    assert point.wait_p95_ms is not None
    assert 5 < point.wait_p95_ms <= 10
    assert counts.over_time(operator, window=HOUR, tenant="nobody") == []
    for by in ("", "tenant"):
        for step in (MINUTE, FIVE_MINUTES):
            assert counts.over_time(operator, window=HOUR, step=step, companies=["nobody"], by=by) == []
    assert ended_lately(operator, ["nobody"])["completed"] == 0
    assert ended_lately(operator, None) == {"completed": 1, "failed": 1}


def test_a_chart_has_a_point_for_each_step_and_line(example: ExampleInstallation, operator: Operator) -> None:
    for ago in ("0", "6 minutes", "2 hours"):
        ended(example, example.one, ago=ago)
    ended(example, example.one, job_type="export")
    count(example)
    points = counts.over_time(operator, window=timedelta(minutes=30), by="type")
    assert [(point.line, point.ended) for point in points] == [("import", 1), *sorted([("(other)", 1), ("import", 1)])]
    (line,) = {point.line for point in counts.over_time(operator, window=HOUR, by="type", lines=1)}
    assert line == "import"
    points = counts.over_time(operator, window=HOUR, step=timedelta(hours=1), job_type="import")
    assert sum(point.ended for point in points) == 2


@pytest.mark.parametrize("by", ["", "type", "tenant"])
@pytest.mark.parametrize("whose", [{}, {"companies": ["northwind"]}, {"tenant": "suc0002"}])
def test_a_chart_by_five_minutes_adds_up_to_one_by_minutes(
    example: ExampleInstallation, operator: Operator, by: counts.By, whose: dict[str, Any]
) -> None:
    for number, outcome in enumerate(("completed", "completed", "failed", "cancelled", "retried", "crashed") * 3):
        tenant = example.one if number % 3 else example.other
        ended(example, tenant, outcome, wait=number * number, ago=f"{7 * number} minutes")
    while count(example, limit=7):
        pass

    def lines(step: timedelta) -> dict[str, Counter[str]]:
        result: dict[str, Counter[str]] = {}
        for point in counts.over_time(operator, window=timedelta(hours=3), step=step, by=by, **whose):
            ends = {name: getattr(point, name) for name in ("completed", "failed", "cancelled", "retried")}
            result.setdefault(point.line, Counter()).update(ends)
        return result

    assert lines(FIVE_MINUTES) == lines(MINUTE)
    assert sum(lines(MINUTE)[next(iter(lines(MINUTE)))].values()) > 0
    points = counts.over_time(operator, window=timedelta(hours=3), step=timedelta(hours=6), by=by, **whose)
    assert all(point.wait_p95_ms is not None and point.run_mean_ms == 100 for point in points)


def test_unannounced_types_share_a_label_except_in_tenant(example: ExampleInstallation, operator: Operator) -> None:
    for number in range(20):
        ended(example, example.one, job_type=f"made-up-{number}")
    count(example)
    assert set(counts.by_type(operator)) == {"(other)"}
    assert {point.line for point in counts.over_time(operator, window=HOUR, by="type")} == {"(other)"}
    assert len(counts.over_time(operator, window=HOUR, by="type", tenant=example.one.slug, lines=50)) >= 20


def test_minutes_are_forgotten_after_two_days_and_totals_never(
    example: ExampleInstallation, operator: Operator
) -> None:
    ended(example, example.one, ago="49 hours")
    ended(example, example.one)
    example.sweep()
    scopes = example.rows("SELECT sign(scope) AS scope FROM turno.statistics WHERE minute > '-infinity' ORDER BY 1")
    assert [row["scope"] for row in scopes] == [-1, 0, 1]
    assert counts.by_type(operator)["import"].outcomes == {"completed": 2}


def test_a_dry_run_counts_and_forgets_nothing(example: ExampleInstallation) -> None:
    ended(example, example.one, ago="49 hours")
    count(example)
    ended(example, example.one)
    before = example.rows("SELECT c::text AS said FROM turno.statistics c ORDER BY 1")
    assert example.sweep(dry_run=True)["counted"] == 1
    assert example.rows("SELECT c::text AS said FROM turno.statistics c ORDER BY 1") == before
    assert len(example.rows("SELECT 1 FROM turno.outcomes WHERE position IS NULL")) == 1


def test_every_end_of_an_attempt_is_counted_with_its_own_time(example: ExampleInstallation) -> None:
    for how, outcome in (("ok", "completed"), ("error", "retried"), ("reschedule_after", "rescheduled")):
        attempt(example, example.enqueue({"how": how}, handler=Faulty))
        (row,) = example.rows("SELECT outcome, run_ms FROM turno.outcomes")
        example.rows("DELETE FROM turno.outcome_batches")
        assert row["outcome"] == outcome
        assert row["run_ms"] is not None


@pytest.mark.parametrize(("crashes", "outcome"), [(0, "crashed"), (2, "failed")])
def test_rescue_is_counted_beside_the_outcome(example: ExampleInstallation, crashes: int, outcome: str) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    worker = example.engine.start_worker(backend="exec", host="gone", pid=1, types=[(Faulty.type, 1)])
    claim = example.engine.claim_job(worker, job_id, types=[(Faulty.type, 1)])
    assert claim
    example.rows("UPDATE turno.tickets SET attempt = %s WHERE job_id = %s", crashes + 1, job_id)
    example.rows("UPDATE background_jobs SET crashes = %s, attempt = %s WHERE id = %s", crashes, crashes, job_id)
    example.rows("SELECT attempt_open(%s, %s, 'here', 0, clock_timestamp()) AS shown", job_id, claim.token)
    example.engine.rescue(example.one.schema, job_id, claim.token, cause="lost", retry_in=timedelta(0), counted=True)
    rows = example.rows("SELECT outcome, run_ms IS NOT NULL AS ran FROM turno.outcomes ORDER BY at")
    assert [(row["outcome"], row["ran"]) for row in rows] == [("rescued", False), (outcome, True)]


def test_chart_has_the_tenants_with_most_ended_jobs(example: ExampleInstallation, operator: Operator) -> None:
    for outcome in ("completed", "failed", "retried"):
        ended(example, example.one, outcome)
    for _ in range(4):
        ended(example, example.other, "retried")
    count(example)
    points = counts.over_time(operator, window=HOUR, by="tenant", lines=1)
    assert {point.line for point in points} == {example.one.slug}


def test_fairness_is_measured_by_weights_of_waiting_tenants(example: ExampleInstallation, operator: Operator) -> None:
    for tenant, run in ((example.one, 300), (example.other, 100)):
        ended(example, tenant, run=run)
    count(example)
    assert evenness(operator) == 1  # no job waits
    for tenant in (example.one, example.other):
        example.enqueue({"order_ids": [1]}, tenant=tenant)
    assert evenness(operator) == pytest.approx(0.8)
    example.rows("UPDATE turno.tenants SET weight = 3 WHERE id = %s", example.one.id)
    try:
        assert evenness(operator) == pytest.approx(1)
    finally:
        example.rows("UPDATE turno.tenants SET weight = 1")


def test_waiting_jobs_are_counted_by_backend_and_type(example: ExampleInstallation, operator: Operator) -> None:
    example.engine.announce([announcements.Announcement("batch_invoicing", 1, "cold", 4)], 20)
    for tenant in (example.one, example.other):
        example.enqueue({"order_ids": [1]}, tenant=tenant)
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '1 min'")
    (queue,) = counts.queued(operator)
    assert (queue["tenant"], queue["type"], queue["waiting"], queue["running"]) == ("", "batch_invoicing", 2, 0)
    assert 60 <= queue["oldest_wait"] < 120
    assert [queue["tenant"] for queue in counts.queued(operator, tenants=True)] == [
        example.one.slug,
        example.other.slug,
    ]


def test_only_workers_with_heartbeats_are_alive(example: ExampleInstallation, operator: Operator) -> None:
    for pid in (1, 2):
        example.engine.start_worker(backend="pool", host="here", pid=pid)
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s' WHERE pid = 2")
    result = {
        server["backend"]: (server["alive"], server["silent"])
        for server in counts.served(operator, timedelta(seconds=30))
    }
    assert result == {"exec": (0, 0), "pool": (1, 1), "rabbitmq": (0, 0)}


def test_bucket_bounds_equal_the_database(example: ExampleInstallation) -> None:
    (row,) = example.rows("SELECT turno.outcome_bounds() AS bounds")
    assert tuple(row["bounds"]) == BOUNDS_MS


@pytest.mark.parametrize("by", ["", "tenant"])
def test_percentiles_of_single_waits_are_exact(example: ExampleInstallation, operator: Operator, by: counts.By) -> None:
    for wait in (3, 1234, 4321):  # each in a separate bucket
        ended(example, example.one, wait=wait)
        count(example)
    (point,) = counts.over_time(operator, window=HOUR, step=HOUR, by=by)
    assert (point.wait_p50_ms, point.wait_p95_ms) == (1234, 4321)
    (share,) = worst_tenants(operator)
    assert (share["wait_p50_ms"], share["wait_p95_ms"]) == (1234, 4321)


@pytest.mark.parametrize("spread", ["n * 20", "n * n", "4000 + n", "100 + 90000000 * (n / 190)"])
def test_percentiles_are_within_their_buckets(example: ExampleInstallation, operator: Operator, spread: str) -> None:
    example.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"  # noqa: S608
        f" SELECT %s, 'import', 'completed', array_agg({spread}), array_agg(1) FROM generate_series(1, 200) AS n",
        example.one.id,
    )
    (true,) = example.rows(
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_ms) AS p50,"
        " percentile_disc(0.95) WITHIN GROUP (ORDER BY wait_ms) AS p95 FROM turno.outcomes"
    )
    bounds = (0, *BOUNDS_MS, float("inf"))
    count(example)
    for tenant in (None, example.one.slug):
        (point,) = counts.over_time(operator, window=HOUR, tenant=tenant)
        for percentile, result in ((true["p50"], point.wait_p50_ms), (true["p95"], point.wait_p95_ms)):
            low = max(bound for bound in bounds if bound < percentile)
            assert result is not None
            assert low < result <= min(bound for bound in bounds if bound >= percentile)


def test_statistics_tables_are_written_by_functions_alone(operator: Operator) -> None:
    for table in ("outcome_batches", "outcome_readers", "statistics", "dead_letter_counts"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            operator.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
