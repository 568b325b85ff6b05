"""A template's moments become jobs of every tenant: one each, in the tenant's zone, and none while it is paused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from handlers.batch_invoicing import BatchInvoicing
from turno.capabilities.schedules import firing
from turno.capabilities.schedules.recurrence import Firing
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.capabilities.schedules.templates import Templates, set_zone
from turno.maintenance.each_tenant import EachTenant
from turno.store.engine.announcements import Announcement
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.provision import add_tenant
from turno.tenancy.provisioning.removal import remove_tenant
from turno.wiring.shared import engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from tests.installation import ExampleInstallation
    from turno.store.engine.engine import Engine

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TENANTS = ("suc0001", "suc0002")


@pytest.fixture(autouse=True)
def noon(example: ExampleInstallation) -> Iterator[None]:
    """The handlers are known, and by the database's clock it is half a minute to noon."""
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)
    example.clock.freeze(NOON - MINUTE / 2)
    yield
    example.clock.thaw()
    example.rows("DELETE FROM turno.schedule_templates")
    example.rows("DELETE FROM turno.template_zones")


@pytest.fixture
def operator(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with service_session(example.logins, example.logins.operator, application="turno-admin") as session:
        yield session


def save(operator: psycopg.Connection[Any], name: str = "nightly", **options: Any) -> str:
    usual: dict[str, Any] = {"cron": "0 * * * *", "payload": {"order_ids": [1]}, "user_id": "ops"}
    wanted = RecurringJob(name=name, handler=BatchInvoicing, **usual | options)
    wanted.rule("")
    return Templates(operator, "eva").save(wanted)


def fire(engine: Engine) -> int:
    report = firing.fire_due(engine, EachTenant(engine))
    assert report.troubles == {}
    return report.done


def moments(example: ExampleInstallation, tenant: str) -> list[datetime]:
    rows = example.rows(
        "SELECT run_at, origin, user_id FROM background_jobs ORDER BY 1", tenant=example.tenants[tenant]
    )
    assert {(row["origin"], row["user_id"]) for row in rows} <= {("template nightly", "ops")}
    return [row["run_at"] for row in rows]


def switch(example: ExampleInstallation, *, pause: bool, tenant: str = "suc0001") -> str:
    statement = "SELECT template_copy_switch('nightly', %s, 'ana') AS verdict"
    (row,) = example.rows(statement, pause, tenant=example.tenants[tenant])
    return str(row["verdict"])


def test_each_tenant_gets_one_job_a_moment(example: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
    assert save(operator) == "created"
    assert fire(example.engine) == 0  # the first moment is decided
    assert fire(example.engine) == 0
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 2
    assert fire(example.engine) == 0
    assert [moments(example, slug) for slug in TENANTS] == [[NOON], [NOON]]


def test_concurrent_maintenance_makes_no_job_twice(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    for number in range(5):
        save(operator, f"n{number}")
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    engines = [engine_of(example.settings) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        made = sum(pool.map(lambda engine: firing.fire_due(engine, EachTenant(engine)).done, engines))
    for engine in engines:
        engine.close()
    assert made == 10
    assert [len(example.rows("SELECT FROM background_jobs", tenant=example.tenants[slug])) for slug in TENANTS] == [
        5,
        5,
    ]


def test_a_tenant_s_zone_replaces_the_template_s(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator, cron="0 9 * * *", zone="UTC")
    assert set_zone(operator, "suc0002", "America/Argentina/Buenos_Aires", by="eva")
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 1
    assert [moments(example, slug) for slug in TENANTS] == [[], [NOON]]  # nine o'clock in Buenos Aires
    assert set_zone(operator, "suc0002", None, by="eva")
    fire(example.engine)
    example.clock.freeze(NOON + 21 * HOUR + MINUTE)
    assert fire(example.engine) == 2
    assert not set_zone(operator, "nowhere", "UTC", by="eva")


def test_a_new_tenant_gets_a_copy_and_a_removed_one_leaves_none(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator)
    new = add_tenant(example.admin, example.logins, "suc0009", "northwind")
    try:
        fire(example.engine)
        example.clock.freeze(NOON + MINUTE)
        assert fire(example.engine) == 3
        rows = example.rows("SELECT run_at FROM background_jobs", tenant=new)
        assert [row["run_at"] for row in rows] == [NOON]
        set_zone(operator, "suc0009", "UTC", by="eva")
    finally:
        remove_tenant(example.admin, example.logins, "suc0009")
    left = "SELECT tenant_id FROM turno.{} WHERE tenant_id = %s"
    for table in ("schedules", "template_runs", "template_zones"):
        assert example.rows(left.format(table), new.id) == []


def test_a_paused_copy_makes_no_job_and_misses_none(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator)
    fire(example.engine)
    assert [switch(example, pause=True), switch(example, pause=True)] == ["changed", "same"]
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 1
    (copy,) = example.rows("SELECT paused_by, missed_runs, next_at FROM template_copies()")
    assert (copy["paused_by"], copy["missed_runs"], copy["next_at"]) == ("ana", 0, None)
    example.clock.freeze(NOON + 5 * HOUR + MINUTE)
    assert switch(example, pause=False) == "changed"
    fire(example.engine)
    example.clock.freeze(NOON + 6 * HOUR + MINUTE)
    fire(example.engine)
    assert moments(example, "suc0001") == [NOON + 6 * HOUR]
    (copy,) = example.rows("SELECT missed_runs, problem, last_at FROM template_copies()")
    assert (copy["missed_runs"], copy["problem"], copy["last_at"]) == (0, None, NOON + 6 * HOUR)


def test_a_paused_template_rests_in_all_tenants(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator)
    fire(example.engine)
    assert switch(example, pause=True) == "changed"
    assert Templates(operator, "eva").switch("nightly", on=False)
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 0
    assert Templates(operator, "eva").switch("nightly", on=True)
    fire(example.engine)
    example.clock.freeze(NOON + HOUR + MINUTE)
    assert fire(example.engine) == 1
    assert [moments(example, slug) for slug in TENANTS] == [[], [NOON + HOUR]]
    assert not Templates(operator, "eva").switch("other", on=False)


def test_a_resumed_copy_of_a_paused_template_rests(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator)
    Templates(operator, "eva").switch("nightly", on=False)
    assert [switch(example, pause=True), switch(example, pause=False)] == ["changed", "changed"]
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 0
    assert moments(example, "suc0001") == []


def test_a_paused_tenant_waits(example: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
    save(operator)
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0002'")
    try:
        assert fire(example.engine) == 1
    finally:
        example.rows("UPDATE turno.tenants SET paused_at = NULL")
    assert fire(example.engine) == 1


def test_an_outdated_state_makes_no_job(example: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
    save(operator)
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    (due,) = firing.due(example.engine, example.one.id)
    assert fire(example.engine) == 2
    late = Firing([NOON + MINUTE], NOON + 9 * HOUR, 0)
    assert firing.fire(example.engine, example.one.schema, due, late, None) == 0
    assert moments(example, "suc0001") == [NOON]


@pytest.mark.parametrize(("missed", "hours"), [("skip", [4]), ("once", [4]), ("all", [0, 1, 2, 3, 4])])
def test_missed_moments_follow_the_policy(
    example: ExampleInstallation, operator: psycopg.Connection[Any], missed: str, hours: list[int]
) -> None:
    save(operator, missed=missed)
    fire(example.engine)
    example.clock.freeze(NOON + 4 * HOUR + MINUTE)
    fire(example.engine)
    assert moments(example, "suc0001") == [NOON + hour * HOUR for hour in hours]
    (copy,) = example.rows("SELECT missed_runs FROM template_copies()")
    assert copy["missed_runs"] == 5 - len(hours)


def test_changed_rule_or_clock_makes_no_moment_twice(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator)
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 2
    example.clock.freeze(NOON - MINUTE / 2)
    assert save(operator, missed="all") == "changed"
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 0
    example.clock.freeze(NOON + HOUR + MINUTE)
    assert fire(example.engine) == 2
    assert moments(example, "suc0001") == [NOON, NOON + HOUR]


def test_locks_of_a_tenant_delay_no_schedule_of_others(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator)
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    with example.admin.transaction():
        example.admin.execute(
            "SELECT FROM turno.schedules WHERE tenant_id = %s FOR UPDATE", [example.tenants["suc0001"].id]
        )
        report = firing.fire_due(example.engine, EachTenant(example.engine))
    assert (report.done, list(report.troubles)) == (1, ["suc0001"])
    example.rows("DELETE FROM turno.tenant_failures")
    assert fire(example.engine) == 1


def test_a_job_waits_in_the_queue_of_its_template(
    example: ExampleInstallation, operator: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchInvoicing, "other_queues", ("hot",))
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4, other_queues=("hot",))], 20)
    save(operator, queue="hot")
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 2
    assert [row["queue"] for row in example.rows("SELECT queue FROM turno.tickets")] == ["hot", "hot"]
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)
    example.clock.freeze(NOON + HOUR + MINUTE)
    assert fire(example.engine) == 0
    (copy,) = example.rows("SELECT problem, queue FROM template_copies()")
    assert (copy["problem"], copy["queue"]) == ("no handler has the type batch_invoicing and the queue hot", "hot")


def test_an_unknown_type_is_a_problem_of_the_copy(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    save(operator)
    fire(example.engine)
    example.rows("DELETE FROM turno.handlers")
    example.clock.freeze(NOON + MINUTE)
    assert fire(example.engine) == 0
    (copy,) = example.rows("SELECT problem, missed_runs FROM template_copies()")
    assert (copy["problem"], copy["missed_runs"]) == ("no handler has the type batch_invoicing", 1)


def test_runs_go_with_their_jobs(example: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
    save(operator)
    fire(example.engine)
    example.clock.freeze(NOON + MINUTE)
    fire(example.engine)
    example.rows("DELETE FROM background_jobs")
    assert len(example.rows("SELECT FROM turno.template_runs")) == 1
    assert Templates(operator, "eva").remove("nightly")
    assert (
        example.rows("SELECT tenant_id FROM turno.template_runs UNION ALL SELECT tenant_id FROM turno.schedules") == []
    )
    assert len(moments(example, "suc0002")) == 1
    assert not Templates(operator, "eva").remove("nightly")
