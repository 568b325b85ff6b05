"""A schedule's moments become jobs: each one once, despite concurrent sweeps, kills, and steps of the clock."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from handlers.batch_invoicing import BatchInvoicing
from tests.installation import ExampleInstallation
from turno.capabilities.schedules import firing
from turno.capabilities.schedules import stored as changes
from turno.capabilities.schedules.firing import DueRule, fire_due, repair
from turno.capabilities.schedules.recurrence import Firing
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.maintenance.each_tenant import EachTenant, TaskReport
from turno.store.engine.announcements import Announcement
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def known(world: ExampleInstallation) -> None:
    world.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)


@pytest.fixture(name="noon")
def at_noon(world: ExampleInstallation) -> Iterator[datetime]:
    """It is noon, by the database's clock."""
    world.clock.freeze(NOON)
    yield NOON
    world.clock.thaw()


def save(world: ExampleInstallation, name: str = "nightly", *, next_at: datetime | None = NOON, **options: Any) -> None:
    usual: dict[str, Any] = {"cron": "* * * * *", "payload": {"order_ids": [1]}, "user_id": "ana"}
    with pytest.MonkeyPatch.context() as patch:
        if next_at is not None:  # as if it had been saved a while ago
            patch.setattr("turno.capabilities.schedules.recurrence.Rule.next_after", lambda *_: next_at)
        word = changes.save(
            world.web, world.one, RecurringJob(name=name, handler=BatchInvoicing, **usual | options), only=None
        )
    assert word in {"created", "changed"}


def fire(engine: Engine) -> TaskReport:
    """Run the task as maintenance does, every tenant's back-off being over."""
    return fire_due(engine, EachTenant(engine))


def sweep(world: ExampleInstallation) -> int:
    report = fire(world.engine)
    assert report.troubles == {}
    return report.done


def fire_one(engine: Engine, world: ExampleInstallation, due: DueRule, moment: datetime, next_at: datetime) -> int:
    return firing.fire(engine, world.one.schema, due, Firing([moment], next_at, 0), None)


def moments(world: ExampleInstallation) -> list[datetime]:
    rows = world.rows("SELECT r.moment, j.run_at FROM job_schedule_runs r JOIN background_jobs j ON j.id = r.job_id")
    assert all(row["moment"] == row["run_at"] for row in rows)
    jobs = world.rows("SELECT id FROM background_jobs")
    assert len(jobs) == len(rows), "a job of no moment"
    return sorted(row["moment"].astimezone(UTC) for row in rows)


def stored(world: ExampleInstallation) -> dict[str, Any]:
    (row,) = world.rows("SELECT * FROM job_schedules")
    (copy,) = world.rows("SELECT * FROM turno.schedules")
    assert {name: row[name] for name in copy.keys() & row.keys()} == {
        name: copy[name] for name in copy.keys() & row.keys()
    }
    return row


def test_a_firing_is_an_ordinary_job_made_ahead_of_its_moment(world: ExampleInstallation, noon: datetime) -> None:
    save(world, next_at=noon + MINUTE, payload={"order_ids": [1, 2]})
    assert sweep(world) == 1
    (job,) = world.rows("SELECT * FROM background_jobs")
    assert (job["type"], job["user_id"], job["payload"], job["run_at"], job["queue"]) == (
        "batch_invoicing", "ana", {"order_ids": [1, 2]}, noon + MINUTE, "cold",
    )  # fmt: skip
    assert (world.ticket(job["id"]) or {})["state"] == "scheduled"
    assert stored(world)["next_at"] == noon + 2 * MINUTE
    world.clock.advance(seconds=61)
    assert world.drain(scheduled=True)["completed"] == 1
    assert world.job(job["id"])["status"] == "completed"


def test_sweeps_at_once_make_one_job_a_moment(world: ExampleInstallation, noon: datetime) -> None:
    for number in range(20):
        save(world, f"s{number}", next_at=noon)

    def one_host(_: int) -> int:
        with Engine.on(service_session(world.logins, world.logins.engine, application="test")) as engine:
            report = fire(engine)
            assert report.troubles == {}
            return report.done

    with ThreadPoolExecutor(4) as hosts:
        made = sum(hosts.map(one_host, range(4)))
    assert made == 20 * 2  # noon, and the minute after it
    assert len(moments(world)) == made


def test_sweep_killed_before_commit_fires_at_the_next(world: ExampleInstallation, noon: datetime) -> None:
    save(world)
    with service_session(world.logins, world.logins.engine, application="test") as session:
        session.autocommit = False
        engine = Engine.on(session)
        (one,) = firing.due(engine, world.one.id)
        assert fire_one(engine, world, one, noon, noon + MINUTE) == 1
        world.admin.execute("SELECT pg_terminate_backend(%s)", (session.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            session.commit()
    assert moments(world) == []
    assert sweep(world) == 2
    assert moments(world) == [noon, noon + MINUTE]


def test_outdated_schedule_makes_no_job(world: ExampleInstallation, noon: datetime) -> None:
    save(world)
    (one,) = firing.due(world.engine, world.one.id)
    assert sweep(world) == 2
    assert fire_one(world.engine, world, one, noon + 5 * MINUTE, noon + 9 * MINUTE) == 0
    assert moments(world) == [noon, noon + MINUTE]


def test_clock_set_back_repeats_and_stops_no_moment(world: ExampleInstallation, noon: datetime) -> None:
    save(world)
    sweep(world)
    world.clock.advance(hours=1)
    sweep(world)
    before = moments(world)
    world.clock.advance(hours=-1)
    for _ in range(4):
        sweep(world)
        world.clock.advance(seconds=30)
    after = moments(world)
    assert set(before) <= set(after)
    assert len(after) == len(set(after))
    assert noon + 3 * MINUTE in after  # between both: an hour before the moment that was next then
    assert stored(world)["next_at"] == noon + 4 * MINUTE


def test_clock_set_forward_misses_the_moments_between(world: ExampleInstallation, noon: datetime) -> None:
    save(world, cron="0 * * * *", missed="once")
    sweep(world)
    world.clock.advance(days=30)
    assert sweep(world) == 1
    assert moments(world) == [noon, noon + timedelta(days=30)]
    world.clock.advance(hours=5, minutes=30)
    assert sweep(world) == 1  # of five the last one
    assert moments(world)[-1] == noon + timedelta(days=30, hours=5)
    assert "4 moments were missed" in stored(world)["problem"]


def test_moments_while_paused_are_not_missed(world: ExampleInstallation) -> None:
    save(world, next_at=None, missed="all")
    assert changes.switch(world.web, world.one, "nightly", on=False, only=None) == "changed"
    assert changes.switch(world.web, world.one, "nightly", on=False, only=None) == "same"
    assert stored(world)["next_at"] is None
    assert sweep(world) == 0
    assert changes.switch(world.web, world.one, "nightly", on=True, only="eve") == "unknown"
    assert changes.switch(world.web, world.one, "nightly", on=True, only=None) == "changed"
    assert stored(world)["next_at"] > datetime.now(UTC)


def test_change_takes_back_exactly_the_future_jobs(world: ExampleInstallation, noon: datetime) -> None:
    save(world)
    sweep(world)
    assert moments(world) == [noon, noon + MINUTE]
    save(world, next_at=noon + MINUTE, payload={"order_ids": [9]})
    assert moments(world) == [noon]
    sweep(world)
    rows = world.rows("SELECT payload, run_at FROM background_jobs ORDER BY run_at")
    assert [(row["payload"]["order_ids"], row["run_at"]) for row in rows] == [([1], noon), ([9], noon + MINUTE)]
    assert len(world.rows("SELECT FROM turno.tickets")) == 2
    assert changes.remove(world.web, world.one, "nightly", only="eve") is False
    assert changes.remove(world.web, world.one, "nightly", only="ana") is True
    assert moments(world) == [noon]
    assert world.rows("SELECT FROM turno.schedules") == []


@pytest.mark.usefixtures("noon")
def test_an_unknown_type_and_a_backlog_say_so_and_make_nothing(world: ExampleInstallation) -> None:
    save(world)
    world.rows("DELETE FROM turno.handlers")
    assert sweep(world) == 0
    assert stored(world)["problem"] == "no handler has the type batch_invoicing"
    assert stored(world)["missed_runs"] == 2
    world.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)
    world.clock.advance(minutes=2)
    assert sweep(world) == 2
    assert stored(world)["problem"] is None
    world.rows("UPDATE turno.handlers SET pending_limit = NULL")
    for _ in range(60):
        world.clock.advance(minutes=2)
        sweep(world)
    assert 100 <= len(moments(world)) <= 101
    assert "of its jobs have not ended" in stored(world)["problem"]


@pytest.mark.usefixtures("noon")
def test_a_paused_tenant_waits_and_a_removed_one_is_gone(world: ExampleInstallation) -> None:
    save(world, missed="skip")
    world.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    try:
        assert sweep(world) == 0
        (row,) = world.rows("SELECT * FROM turno.schedules_listed")
        assert (row["slug"], row["name"], row["tenant_paused_at"] is None) == ("suc0001", "nightly", False)
    finally:
        world.rows("UPDATE turno.tenants SET paused_at = NULL")
    assert sweep(world) == 2
    world.rows("UPDATE turno.tenants SET state = 'removed' WHERE slug = 'suc0001'")
    try:
        world.clock.advance(minutes=2)
        assert sweep(world) == 0
        assert world.rows("SELECT * FROM turno.schedules_listed") == []
    finally:
        world.rows("UPDATE turno.tenants SET state = 'active' WHERE slug = 'suc0001'")


@pytest.mark.usefixtures("noon")
def test_refused_schedule_stops_no_schedule(world: ExampleInstallation) -> None:
    save(world, "a")
    save(world, "b")
    (row,) = world.rows("SELECT id FROM job_schedules WHERE name = 'a'")
    refuse = "ALTER TABLE job_schedule_runs ADD CONSTRAINT broken CHECK (schedule_id <> '{}') NOT VALID"
    world.rows(refuse.format(row["id"]))
    try:
        report = fire(world.engine)
    finally:
        world.rows("ALTER TABLE job_schedule_runs DROP CONSTRAINT broken")
    assert report.done == 2
    assert list(report.troubles) == ["suc0001/a"]
    problems = {row["name"]: row["problem"] for row in world.rows("SELECT name, problem FROM job_schedules")}
    assert problems["b"] is None
    assert "its job was refused" in problems["a"]
    assert sweep(world) == 2  # nothing is lost: its moments are still due


FILL = """
INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)
SELECT 'n' || n, 'batch_invoicing', '{}', 1, 'ana', 3600, 'UTC', 0, 'once', %s
FROM generate_series(1, %s) AS n
"""


def test_paused_tenant_with_many_schedules_stops_no_tenant(world: ExampleInstallation, noon: datetime) -> None:
    paused = world.tenants["suc0002"]
    world.rows(FILL, noon - 10 * MINUTE, 600, tenant=paused)
    world.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0002'")
    try:
        save(world)
        assert sweep(world) == 2
        assert moments(world) == [noon, noon + MINUTE]
    finally:
        world.rows("UPDATE turno.tenants SET paused_at = NULL")
        world.rows("DELETE FROM job_schedules", tenant=paused)


def test_a_locked_table_costs_one_lock_timeout(
    world: ExampleInstallation, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, fires = world.tenants["suc0002"], list[str]()
    slugs = {tenant.schema: slug for slug, tenant in world.tenants.items()}
    real = firing.fire

    def recorded(engine: Engine, schema: str, *given: Any) -> int:
        fires.append(slugs[schema])
        return real(engine, schema, *given)

    monkeypatch.setattr(firing, "fire", recorded)
    world.rows(FILL, noon, 5)
    world.rows(FILL, noon, 1, tenant=other)
    with psycopg.connect(world.url) as locking:
        locking.execute(f'LOCK TABLE "{world.one.schema}".job_schedules')
        report = fire(world.engine)
    assert report.done == 1
    assert list(report.troubles) == ["suc0001"]
    assert fires == ["suc0001", "suc0002"]
    world.rows("UPDATE turno.tenant_failures SET retry_at = now()")
    assert sweep(world) == 5
    world.rows("DELETE FROM job_schedules", tenant=other)
    world.rows("DELETE FROM background_jobs", tenant=other)


@pytest.mark.usefixtures("noon")
def test_a_job_that_stays_open_stops_no_schedule(world: ExampleInstallation) -> None:
    save(world)
    sweep(world)
    (first,) = world.rows("SELECT id FROM background_jobs ORDER BY run_at LIMIT 1")
    for _ in range(70):
        world.clock.advance(minutes=2)
        assert sweep(world) == 2
        world.rows(
            "UPDATE background_jobs SET status = 'cancelled', finished_at = now()"
            " WHERE status = 'pending' AND id <> %s",
            first["id"],
        )
    assert stored(world)["problem"] is None
    assert len(stored(world)["open_jobs"]) == 3


def test_a_host_without_zone_data_leaves_the_schedule_due(
    world: ExampleInstallation, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(world, cron="0 * * * *", zone="America/Argentina/Buenos_Aires")
    with monkeypatch.context() as patch:
        patch.setattr("turno.capabilities.schedules.recurrence.known_zone", lambda _zone: False)
        assert sweep(world) == 0
        assert sweep(world) == 0
    row = stored(world)
    assert (row["next_at"], row["missed_runs"]) == (noon, 0)
    assert "zone" in row["problem"]
    assert sweep(world) == 1
    assert stored(world)["problem"] is None


def test_repair_restores_the_copies(world: ExampleInstallation) -> None:
    save(world, next_at=None)
    copy = world.rows("SELECT * FROM turno.schedules")
    world.rows("UPDATE turno.schedules SET schedule_id = gen_random_uuid()")
    assert repair(world.engine, EachTenant(world.engine)).done == 2
    assert world.rows("SELECT * FROM turno.schedules") == copy


def test_a_job_waits_in_the_queue_of_its_schedule(
    world: ExampleInstallation, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchInvoicing, "other_queues", ("hot",))
    world.engine.announce([Announcement("batch_invoicing", 1, "cold", 4, other_queues=("hot",))], 20)
    save(world, queue="hot")
    assert sweep(world) == 2
    assert {row["queue"] for row in world.rows("SELECT queue FROM turno.tickets")} == {"hot"}
    world.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)
    world.clock.freeze(noon + 2 * MINUTE)
    assert sweep(world) == 0
    assert stored(world)["problem"] == "no handler has the type batch_invoicing and the queue hot"
    save(world)
    assert stored(world)["queue"] is None


def test_a_tenant_has_at_most_a_thousand(world: ExampleInstallation) -> None:
    world.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " SELECT 'n' || n, 'batch_invoicing', '{}', 1, 'ana', 60, 'UTC', 0, 'once', '2999-01-01'"
        " FROM generate_series(1, 999) AS n"
    )
    save(world, "last")
    one_more = RecurringJob(name="more", handler=BatchInvoicing, payload={}, user_id="ana", every=60)
    assert changes.save(world.web, world.one, one_more, only=None) == "full"


def test_a_user_saves_at_most_a_tenth_of_the_schedules(world: ExampleInstallation) -> None:
    wanted = [
        RecurringJob(name=f"n{n}", handler=BatchInvoicing, payload={}, user_id="ana", every=60) for n in range(101)
    ]
    for one in wanted[:100]:
        assert changes.save(world.web, world.one, one, only="ana") == "created"
    assert changes.save(world.web, world.one, wanted[100], only="ana") == "full"
    assert changes.save(world.web, world.one, wanted[99], only="ana") == "changed"
    others = replace(wanted[100], user_id="bob")
    assert changes.save(world.web, world.one, others, only="bob") == "created"


def test_open_jobs_of_schedules_count_in_the_quota(world: ExampleInstallation, noon: datetime) -> None:
    save(world)
    assert sweep(world) > 0
    world.rows("UPDATE turno.handlers SET pending_limit = 1")
    world.clock.freeze(noon + 3 * MINUTE)
    assert sweep(world) == 0
    assert stored(world)["problem"] == "its user has as many open jobs as allowed"
    world.rows("UPDATE job_schedules SET open_jobs = '{}'")
    world.clock.freeze(noon + 6 * MINUTE)
    assert sweep(world) > 0, "a schedule without an open job fires however many jobs its user has"
    world.rows("UPDATE turno.handlers SET pending_limit = 20")


@pytest.mark.usefixtures("noon")
def test_runs_go_with_their_jobs(world: ExampleInstallation) -> None:
    save(world)
    sweep(world)
    world.rows("DELETE FROM turno.tickets")
    world.rows("UPDATE background_jobs SET status = 'cancelled', finished_at = now() - interval '1 year'")
    assert world.engine.purge(world.one.schema, timedelta(days=30), 10) == 2
    assert moments(world) == []
