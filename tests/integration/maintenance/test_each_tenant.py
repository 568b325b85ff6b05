"""One tenant's failure costs its own turn: all other tenants get theirs, and it is tried again after a growing
back-off."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.installation import ExampleInstallation
from turno.maintenance.each_tenant import EachTenant, TenantTask
from turno.store.engine.engine import Engine, TenantTurn

TASK = TenantTask(name="a task", lock_timeout="50ms", longest=timedelta(seconds=40))


class Clock:
    """Seconds that a test advances."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Work:
    """Records the tenants of its calls; refused for tenants in `broken`."""

    def __init__(self, *broken: str) -> None:
        self.broken = set(broken)
        self.slugs: list[str] = []

    def __call__(self, engine: Engine, tenant: TenantTurn) -> int | None:
        self.slugs.append(tenant.slug)
        engine.execute("SELECT 1 / %s::integer", (tenant.slug not in self.broken,))
        return 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def each_tenant(example: ExampleInstallation, clock: Clock) -> EachTenant:
    return EachTenant(example.engine, clock=clock)


def failures(example: ExampleInstallation) -> list[dict[str, Any]]:
    return example.rows(
        "SELECT n.slug, f.task, f.failures, f.error, extract(epoch FROM f.retry_at - now())::integer AS wait"
        " FROM turno.tenant_failures f JOIN turno.tenants n ON n.id = f.tenant_id"
    )


def back_off_ends(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenant_failures SET retry_at = clock_timestamp()")


def test_failing_tenant_stops_no_tenant(example: ExampleInstallation, each_tenant: EachTenant) -> None:
    work = Work("suc0001")
    report = each_tenant.run(TASK, work)
    assert work.slugs == ["suc0001", "suc0002"]
    assert report.done == 1
    assert list(report.troubles) == ["suc0001"]
    (row,) = failures(example)
    assert (row["slug"], row["task"], row["failures"]) == ("suc0001", "a task", 1)
    assert "division by zero" in row["error"]


def test_a_failing_tenant_is_left_out_until_its_back_off_ends(
    example: ExampleInstallation, each_tenant: EachTenant
) -> None:
    work = Work("suc0001")
    each_tenant.run(TASK, work)
    work.slugs.clear()
    assert each_tenant.run(TASK, work).troubles == {}
    assert work.slugs == ["suc0002"]
    waits = []
    for _ in range(3):
        back_off_ends(example)
        each_tenant.run(TASK, work)
        waits.append(failures(example)[0]["wait"])
    assert waits == [pytest.approx(20, abs=2), pytest.approx(40, abs=2), pytest.approx(40, abs=2)]
    back_off_ends(example)
    work.broken.clear()
    each_tenant.run(TASK, work)
    assert failures(example) == []


def test_a_back_off_belongs_to_one_task(each_tenant: EachTenant) -> None:
    each_tenant.run(TASK, Work("suc0001"))
    another = Work()
    each_tenant.run(TenantTask(name="another"), another)
    assert another.slugs == ["suc0001", "suc0002"]


def test_a_locked_tenant_costs_one_lock_timeout(example: ExampleInstallation, each_tenant: EachTenant) -> None:
    def lock(engine: Engine, tenant: TenantTurn) -> int:
        return engine.expire(tenant.schema)

    with psycopg.connect(example.url) as other:
        other.execute(f'LOCK TABLE "{example.one.schema}".background_jobs')
        report = each_tenant.run(TASK, lock)
    assert list(report.troubles) == ["suc0001"]
    assert "lock timeout" in report.troubles["suc0001"]


def test_any_error_of_the_work_is_recorded(example: ExampleInstallation, each_tenant: EachTenant) -> None:
    def unreadable(_engine: Engine, tenant: TenantTurn) -> int:
        if tenant.slug == "suc0001":
            raise PermissionError("no access to its folder")
        return 1

    assert each_tenant.run(TASK, unreadable).done == 1
    assert failures(example)[0]["error"] == "PermissionError: no access to its folder"


def test_an_unreachable_database_ends_the_run(example: ExampleInstallation, each_tenant: EachTenant) -> None:
    def gone(_engine: Engine, _tenant: TenantTurn) -> int:
        raise psycopg.OperationalError("connection lost")

    with pytest.raises(psycopg.OperationalError):
        each_tenant.run(TASK, gone)
    assert failures(example) == []


def test_a_turn_continues_behind_the_last_tenant(each_tenant: EachTenant, clock: Clock) -> None:
    slugs: list[str] = []

    def slow(_engine: Engine, tenant: TenantTurn) -> int:
        slugs.append(tenant.slug)
        clock.now += 6.0  # more than the budget
        return 1

    for _ in range(3):
        each_tenant.run(TASK, slow)
    assert slugs == ["suc0001", "suc0002", "suc0001"]


def test_a_tenant_that_ends_the_process_is_not_the_first_again(each_tenant: EachTenant) -> None:
    def killed(_engine: Engine, _tenant: TenantTurn) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        each_tenant.run(TASK, killed)
    work = Work()
    each_tenant.run(TASK, work)
    assert work.slugs == ["suc0002", "suc0001"]


def test_a_round_contains_each_tenant_once_a_period(
    example: ExampleInstallation, each_tenant: EachTenant, clock: Clock
) -> None:
    hourly = TenantTask(name="hourly", every=timedelta(hours=1))
    slugs: list[str] = []

    def slow(_engine: Engine, tenant: TenantTurn) -> int:
        slugs.append(tenant.slug)
        clock.now += 6.0
        return 1

    for _ in range(4):
        each_tenant.run(hourly, slow)
    assert slugs == ["suc0001", "suc0002"]
    example.rows("UPDATE turno.tenant_tasks SET begun_at = begun_at - interval '1 hour'")
    each_tenant.run(hourly, slow)
    assert slugs == ["suc0001", "suc0002", "suc0001"]
    each_tenant.complete = True
    each_tenant.run(hourly, slow)
    assert sorted(slugs[3:]) == ["suc0001", "suc0002"]


def test_a_tenant_with_much_work_shares_the_turn(each_tenant: EachTenant, clock: Clock) -> None:
    left = {"suc0001": 4, "suc0002": 2}
    slugs: list[str] = []

    def batch(_engine: Engine, tenant: TenantTurn) -> int | None:
        if not left[tenant.slug]:
            return None
        left[tenant.slug] -= 1
        slugs.append(tenant.slug[-1])
        clock.now += 0.5
        return 1

    task = TenantTask(name="batches", repeat=True, share=1.0, budget=5.0)
    assert each_tenant.run(task, batch).done == 6
    assert "".join(slugs) == "112211"


def test_a_dry_run_changes_nothing(example: ExampleInstallation) -> None:
    turns = "SELECT * FROM turno.tenant_tasks ORDER BY task"  # an earlier test may have left some
    before = example.rows(turns)
    report = EachTenant(example.engine, dry_run=True).run(TASK, Work("suc0001"))
    assert (report.done, list(report.troubles)) == (1, ["suc0001"])
    assert (failures(example), example.rows(turns)) == ([], before)


def test_only_tenants_with_work_are_visited(example: ExampleInstallation, each_tenant: EachTenant) -> None:
    work = Work()
    each_tenant.run(TASK, work, among=[example.tenants["suc0002"].id])
    each_tenant.run(TASK, work, among=[])
    assert work.slugs == ["suc0002"]


def test_a_removed_tenant_has_no_turn(example: ExampleInstallation, each_tenant: EachTenant) -> None:
    example.rows("UPDATE turno.tenants SET state = 'removed' WHERE slug = 'suc0001'")
    try:
        work = Work()
        each_tenant.run(TASK, work)
        assert work.slugs == ["suc0002"]
    finally:
        example.rows("UPDATE turno.tenants SET state = 'active' WHERE slug = 'suc0001'")
