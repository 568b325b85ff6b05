"""What ended is counted once: by tenant, by minute and in all, whenever the counts are made."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from tests.attempt_here import attempt
from tests.misbehaving_handlers import Odd
from turno.store.engine import announcements, outcomes
from turno.store.operator import board, fairness, over_time, present, totals
from turno.store.operator.histogram import BOUNDS_MS, cumulative
from turno.store.operator.troubles import troubles
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant

HOUR, FIVE_MINUTES, MINUTE = timedelta(hours=1), timedelta(minutes=5), timedelta(minutes=1)
Operator = psycopg.Connection[Any]


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
        "INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms, at)"
        " VALUES (%s, %s, %s, %s, %s, clock_timestamp() - %s::interval)",
        tenant.id, job_type, outcome, wait, run, ago,
    )  # fmt: skip


def count(world: ExampleInstallation, *, from_lowest: bool = False, limit: int = 100_000) -> int:
    return outcomes.count(world.engine, limit, from_lowest)


def seen(operator: Operator) -> list[Any]:
    return [
        totals.by_type(operator),
        totals.by_tenant(operator),
        fairness.shares(operator),
        *(over_time.over_time(operator, window=HOUR, by=by) for by in ("", "type", "tenant")),
        *(over_time.over_time(operator, window=HOUR, by=by, step=FIVE_MINUTES) for by in ("", "type", "tenant")),
        over_time.over_time(operator, window=HOUR, by="type", step=FIVE_MINUTES, companies=["northwind"]),
        board.ended_lately(operator, None),
        board.ended_lately(operator, ["northwind"]),
        [one.values for one in troubles(operator, HOUR) if one.kind == "failures"],
    ]


def test_the_numbers_are_the_same_before_and_after_they_are_counted(
    world: ExampleInstallation, operator: Operator
) -> None:
    for wait in (3, 30, 30_000):
        ended(world, world.one, wait=wait, run=wait * 2)
        ended(world, world.other, "failed", wait=wait, ago="5 minutes")
        ended(world, world.other, "retried", wait=wait, job_type="export")
    before = seen(operator)
    assert count(world, limit=4) == 4
    assert seen(operator) == before
    assert count(world) == 5
    assert count(world) == 0
    assert seen(operator) == before
    assert world.rows("SELECT 1 FROM turno.outcomes") == []


def test_totals_tell_attempts_waits_and_runs_of_a_type(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one, wait=10, run=100)
    ended(world, world.other, "cancelled", wait=11, run=None)
    for claim in ("rescued", "claim_lost"):
        ended(world, world.other, claim, wait=5, run=None)
    one = totals.by_type(operator)["import"]
    assert one.outcomes == {"completed": 1, "cancelled": 1, "rescued": 1, "claim_lost": 1}
    assert (one.submitted, one.attempts, one.wait_ms, one.run_ms) == (2, 1, 21, {"completed": 100})
    assert cumulative(one.waits)[BOUNDS_MS.index(10)] == 1  # at most ten
    assert cumulative(one.waits)[BOUNDS_MS.index(20)] == 2
    assert one.runs["completed"] == Counter({BOUNDS_MS.index(100): 1})


def test_totals_of_a_tenant_are_its_own(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one)
    ended(world, world.other, "failed")
    for _ in range(2):
        found = {(one.tenant, one.outcome): one.outcomes for one in totals.by_tenant(operator)}
        assert found == {(world.one.slug, "completed"): 1, (world.other.slug, "failed"): 1}
        count(world)


def test_a_chart_of_one_tenant_shows_nothing_of_another(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one, wait=9)
    ended(world, world.other, "failed", wait=90)
    for _ in range(2):
        (point,) = over_time.over_time(operator, window=HOUR, tenant=world.one.slug)
        assert (point.completed, point.failed) == (1, 0)
        assert point.wait_p95_ms is not None
        assert 5 < point.wait_p95_ms <= 10
        assert over_time.over_time(operator, window=HOUR, tenant="nobody") == []
        for by in ("", "tenant"):
            for step in (MINUTE, FIVE_MINUTES):
                assert over_time.over_time(operator, window=HOUR, step=step, companies=["nobody"], by=by) == []
        assert board.ended_lately(operator, ["nobody"])["completed"] == 0
        count(world)


def test_a_chart_has_a_point_for_each_step_and_line(world: ExampleInstallation, operator: Operator) -> None:
    for ago in ("0", "6 minutes", "2 hours"):
        ended(world, world.one, ago=ago)
    ended(world, world.one, job_type="export")
    points = over_time.over_time(operator, window=timedelta(minutes=30), by="type")
    assert [(point.line, point.ended) for point in points] == [("import", 1), *sorted([("(other)", 1), ("import", 1)])]
    (line,) = {point.line for point in over_time.over_time(operator, window=HOUR, by="type", lines=1)}
    assert line == "import"
    points = over_time.over_time(operator, window=HOUR, step=timedelta(hours=1), job_type="import")
    assert sum(point.ended for point in points) == 2


@pytest.mark.parametrize("by", ["", "type", "tenant"])
@pytest.mark.parametrize("whose", [{}, {"companies": ["northwind"]}, {"tenant": "suc0002"}])
def test_a_chart_by_five_minutes_adds_up_to_one_by_minutes(
    world: ExampleInstallation, operator: Operator, by: over_time.By, whose: dict[str, Any]
) -> None:
    for number, outcome in enumerate(("completed", "completed", "failed", "cancelled", "retried", "crashed") * 3):
        tenant = world.one if number % 3 else world.other
        ended(world, tenant, outcome, wait=number * number, ago=f"{7 * number} minutes")
    count(world, limit=9)

    def lines(step: timedelta) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for point in over_time.over_time(operator, window=timedelta(hours=3), step=step, by=by, **whose):
            ends = {name: getattr(point, name) for name in ("completed", "failed", "cancelled", "retried")}
            found.setdefault(point.line, Counter()).update(ends)
        return found

    assert lines(FIVE_MINUTES) == lines(MINUTE)
    assert sum(lines(MINUTE)[next(iter(lines(MINUTE)))].values()) > 0
    points = over_time.over_time(operator, window=timedelta(hours=3), step=timedelta(hours=6), by=by, **whose)
    assert all(point.wait_p95_ms is not None and point.run_mean_ms == 100 for point in points)


def test_types_that_nobody_announced_are_one_except_in_their_tenant(
    world: ExampleInstallation, operator: Operator
) -> None:
    for number in range(20):
        ended(world, world.one, job_type=f"made-up-{number}")
    count(world)
    assert set(totals.by_type(operator)) == {"(other)"}
    assert {point.line for point in over_time.over_time(operator, window=HOUR, by="type")} == {"(other)"}
    assert len(over_time.over_time(operator, window=HOUR, by="type", tenant=world.one.slug, lines=50)) >= 20


def test_what_commits_while_others_are_counted_is_counted_later(world: ExampleInstallation, operator: Operator) -> None:
    insert = (
        "INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms) VALUES (%s, 'import', 'failed', 1, 1)"
    )
    with psycopg.connect(world.url) as slow:
        slow.execute(insert, [world.one.id])
        ended(world, world.one)
        assert count(world) == 1
        slow.commit()
    assert totals.by_type(operator)["import"].outcomes == {"completed": 1, "failed": 1}
    assert count(world) == 1


def test_what_commits_long_after_later_ones_were_counted_is_found_from_the_lowest(
    world: ExampleInstallation, operator: Operator
) -> None:
    insert = (
        "INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms) VALUES (%s, 'import', 'failed', 1, 1)"
    )
    with psycopg.connect(world.url) as slow:
        slow.execute(insert, [world.one.id])
        world.rows("SELECT setval('turno.outcomes_id_seq', nextval('turno.outcomes_id_seq') + 20000)")
        ended(world, world.one)
        assert count(world) == 1
        slow.commit()
    assert count(world) == 0
    assert count(world, from_lowest=True) == 1
    assert totals.by_type(operator)["import"].outcomes == {"completed": 1, "failed": 1}


def test_maintenance_counts_from_the_lowest(world: ExampleInstallation) -> None:
    ended(world, world.one)
    world.rows("UPDATE turno.outcomes_counted SET below = below + 1000000")
    world.sweep()
    world.rows("UPDATE turno.outcomes_counted SET below = 0")
    assert world.rows("SELECT 1 FROM turno.outcomes") == []


def test_the_first_of_those_that_wait_are_counted_when_the_ids_leave_a_gap(world: ExampleInstallation) -> None:
    ended(world, world.one)
    world.rows("SELECT setval('turno.outcomes_id_seq', nextval('turno.outcomes_id_seq') + 20000)")
    ended(world, world.one)
    assert [count(world, limit=10) for _ in range(3)] == [1, 1, 0]


def test_minutes_are_forgotten_after_two_days_and_totals_never(world: ExampleInstallation, operator: Operator) -> None:
    ended(world, world.one, ago="49 hours")
    ended(world, world.one)
    world.sweep()
    assert len(world.rows("SELECT 1 FROM turno.outcome_counts WHERE minute <> '-infinity'")) == 1
    assert len(world.rows("SELECT 1 FROM turno.tenant_loads WHERE tenant_id = 0")) == 1
    assert len(world.rows("SELECT 1 FROM turno.recent_ends")) == 1
    assert totals.by_type(operator)["import"].outcomes == {"completed": 2}


def test_a_dry_run_counts_and_forgets_nothing(world: ExampleInstallation) -> None:
    ended(world, world.one, ago="49 hours")
    count(world)
    ended(world, world.one)
    before = world.rows("SELECT c::text AS said FROM turno.outcome_counts c ORDER BY 1")
    assert world.sweep(dry_run=True)["counted"] == 1
    assert world.rows("SELECT c::text AS said FROM turno.outcome_counts c ORDER BY 1") == before
    assert len(world.rows("SELECT 1 FROM turno.outcomes")) == 1


def test_every_end_of_an_attempt_is_counted_with_its_own_time(world: ExampleInstallation) -> None:
    for how, outcome in (("ok", "completed"), ("error", "retried"), ("reschedule_after", "rescheduled")):
        attempt(world, world.enqueue({"how": how}, handler=Odd))
        (row,) = world.rows("DELETE FROM turno.outcomes RETURNING outcome, run_ms")
        assert row["outcome"] == outcome
        assert row["run_ms"] is not None


@pytest.mark.parametrize(("crashes", "outcome"), [(0, "crashed"), (2, "failed")])
def test_a_rescue_is_counted_beside_what_became_of_the_attempt(
    world: ExampleInstallation, crashes: int, outcome: str
) -> None:
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    worker = world.engine.start_worker(backend="exec", host="gone", pid=1, types=[(Odd.type, 1)])
    claim = world.engine.claim_job(worker, job_id, types=[(Odd.type, 1)])
    assert claim
    world.rows("UPDATE turno.tickets SET attempt = %s WHERE job_id = %s", crashes + 1, job_id)
    world.rows("UPDATE background_jobs SET crashes = %s, attempt = %s WHERE id = %s", crashes, crashes, job_id)
    world.rows("SELECT attempt_open(%s, %s, 'here', 0, clock_timestamp()) AS shown", job_id, claim.token)
    world.engine.rescue(world.one.schema, job_id, claim.token, cause="lost", retry_in=timedelta(0), counted=True)
    rows = world.rows("SELECT outcome, run_ms IS NOT NULL AS ran FROM turno.outcomes ORDER BY id")
    assert [(row["outcome"], row["ran"]) for row in rows] == [("rescued", False), (outcome, True)]


def test_of_many_tenants_a_chart_has_those_with_most_ended_jobs(world: ExampleInstallation, operator: Operator) -> None:
    for outcome in ("completed", "failed", "retried"):
        ended(world, world.one, outcome)
    for _ in range(4):
        ended(world, world.other, "retried")
    for _ in range(2):
        points = over_time.over_time(operator, window=HOUR, by="tenant", lines=1)
        assert {point.line for point in points} == {world.one.slug}
        count(world)


def test_fairness_is_told_by_the_weights_of_those_that_wait(world: ExampleInstallation, operator: Operator) -> None:
    for tenant, run in ((world.one, 300), (world.other, 100)):
        ended(world, tenant, run=run)
    assert fairness.evenness(operator) == 1  # nobody waits
    for tenant in (world.one, world.other):
        world.enqueue({"order_ids": [1]}, tenant=tenant)
    assert fairness.evenness(operator) == pytest.approx(0.8)
    count(world)
    assert fairness.evenness(operator) == pytest.approx(0.8)
    world.rows("UPDATE turno.tenants SET weight = 3 WHERE id = %s", world.one.id)
    try:
        assert fairness.evenness(operator) == pytest.approx(1)
    finally:
        world.rows("UPDATE turno.tenants SET weight = 1")


def test_what_waits_is_told_by_backend_and_type(world: ExampleInstallation, operator: Operator) -> None:
    world.engine.announce([announcements.Announcement("batch_invoicing", 1, "cold", 4)], 20)
    for tenant in (world.one, world.other):
        world.enqueue({"order_ids": [1]}, tenant=tenant)
    world.rows("UPDATE turno.tickets SET run_at = now() - interval '1 min'")
    (one,) = present.queued(operator)
    assert (one.tenant, one.type, one.ready, one.running) == ("", "batch_invoicing", 2, 0)
    assert 60 <= one.oldest_wait < 120
    assert [one.tenant for one in present.queued(operator, tenants=True)] == [world.one.slug, world.other.slug]


def test_only_workers_that_were_heard_of_are_alive(world: ExampleInstallation, operator: Operator) -> None:
    for pid in (1, 2):
        world.engine.start_worker(backend="pool", host="here", pid=pid)
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s' WHERE pid = 2")
    found = {one.backend: (one.alive, one.silent) for one in present.served(operator, timedelta(seconds=30))}
    assert found == {"exec": (0, 0), "pool": (1, 1), "rabbitmq": (0, 0)}


def test_the_bounds_of_the_buckets_are_those_of_the_database(world: ExampleInstallation) -> None:
    (row,) = world.rows("SELECT turno.outcome_bounds() AS bounds")
    assert tuple(row["bounds"]) == BOUNDS_MS


@pytest.mark.parametrize("by", ["", "tenant"])
def test_percentiles_of_single_waits_are_exact(
    world: ExampleInstallation, operator: Operator, by: over_time.By
) -> None:
    for wait in (3, 1234, 4321):  # each in a bucket of its own
        ended(world, world.one, wait=wait)
    for _ in range(2):
        (point,) = over_time.over_time(operator, window=HOUR, by=by)
        assert (point.wait_p50_ms, point.wait_p95_ms) == (1234, 4321)
        (share,) = fairness.shares(operator)
        assert (share["wait_p50_ms"], share["wait_p95_ms"]) == (1234, 4321)
        count(world)


@pytest.mark.parametrize("spread", ["n * 20", "n * n", "4000 + n", "100 + 90000000 * (n / 190)"])
def test_percentiles_are_within_their_buckets(world: ExampleInstallation, operator: Operator, spread: str) -> None:
    world.rows(
        "INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)"  # noqa: S608
        f" SELECT %s, 'import', 'completed', {spread}, 1 FROM generate_series(1, 200) AS n",
        world.one.id,
    )
    (true,) = world.rows(
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_ms) AS p50,"
        " percentile_disc(0.95) WITHIN GROUP (ORDER BY wait_ms) AS p95 FROM turno.outcomes"
    )
    bounds = (0, *BOUNDS_MS, float("inf"))
    for _ in range(2):
        for tenant in (None, world.one.slug):
            (point,) = over_time.over_time(operator, window=HOUR, tenant=tenant)
            for percentile, found in ((true["p50"], point.wait_p50_ms), (true["p95"], point.wait_p95_ms)):
                low = max(bound for bound in bounds if bound < percentile)
                assert found is not None
                assert low < found <= min(bound for bound in bounds if bound >= percentile)
        count(world)


def test_the_tables_of_the_statistics_are_written_by_functions_alone(operator: Operator) -> None:
    for table in ("outcomes", "outcome_counts", "outcomes_counted", "dead_letter_counts"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            operator.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
