"""The model of docs/deploying.md: twice the load takes twice the time, and a simulation shows the exceptions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scaling_model import BUSY, Costs, Load, breaks, need, simulate

COSTS = Costs(
    enqueue_db_ms=0.5,
    run_db_ms=0.5,
    run_worker_ms=0.25,
    cold_db_ms=10.0,
    cold_worker_ms=2.0,
    claim_ms=0.2,
    upkeep_db_ms=4.0,
    wal_bytes=4_000.0,
    history_bytes=2_000.0,
    tenant_bytes=1e6,
    relations=80.0,
    tables=30.0,
    child_mb=12.0,
    parent_mb=15.0,
)
LOAD = Load(tenants=1_000, jobs_a_day=1_000_000)


def test_tenfold_jobs_take_tenfold_children_and_disk() -> None:
    base, ten = need(LOAD, COSTS), need(replace(LOAD, jobs_a_day=10_000_000), COSTS)
    assert ten.children == pytest.approx(10 * base.children, rel=0.05)
    assert ten.wal_gb_a_day == pytest.approx(10 * base.wal_gb_a_day)
    assert ten.history_gb == pytest.approx(10 * base.history_gb)
    assert ten.upkeep_seconds == base.upkeep_seconds
    assert ten.relations == base.relations


def test_tenfold_tenants_take_tenfold_upkeep_and_catalog() -> None:
    base, ten = need(LOAD, COSTS), need(replace(LOAD, tenants=10_000), COSTS)
    assert ten.upkeep_seconds == pytest.approx(10 * base.upkeep_seconds) == 40.0
    assert ten.relations == 10 * base.relations
    assert ten.schemas_gb == pytest.approx(10.0)
    assert ten.children == pytest.approx(base.children, abs=1)


def test_a_lone_tenant_is_never_cold() -> None:
    result = need(replace(LOAD, tenants=1, job_seconds=0.0), COSTS)
    assert result.turno_db_cores == pytest.approx(LOAD.peak_a_second * 1.2 / 1000 / BUSY, rel=0.01)


def test_exceeded_limit_is_named() -> None:
    small = need(Load(tenants=100, jobs_a_day=100_000), COSTS)
    assert breaks(small) == []
    large = need(Load(tenants=10_000, jobs_a_day=10_000_000), COSTS)
    assert {bottleneck.split()[0] for bottleneck in breaks(large)} == {"pg_dump", "more"}
    assert "upkeep does not end within its period" in breaks(replace(large, upkeep_seconds=301.0))


def test_simulated_children_are_as_busy_as_the_model() -> None:
    children = need(LOAD, COSTS).children
    assert simulate(LOAD, COSTS, children, seconds=600).busy == pytest.approx(BUSY, abs=0.05)


def test_a_few_children_that_are_as_busy_let_jobs_wait_longer() -> None:
    small = replace(LOAD, jobs_a_day=100_000)
    few = simulate(small, COSTS, need(small, COSTS).children, seconds=3_600)
    many = simulate(LOAD, COSTS, need(LOAD, COSTS).children, seconds=600)
    assert few.p95 > many.p95


def test_too_few_children_are_seen() -> None:
    children = need(LOAD, COSTS).children
    assert simulate(LOAD, COSTS, children // 2, seconds=600).p50 > 10
    # The same hour each time.
    assert simulate(LOAD, COSTS, 30, seconds=60) == simulate(LOAD, COSTS, 30, seconds=60)
