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
from turno.capabilities.schedules.firing import DueRule, fire_due, repair
from turno.capabilities.schedules.recurrence import Firing
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.capabilities.schedules.stored import Schedules
from turno.maintenance.each_tenant import EachTenant, TaskReport
from turno.store.engine.announcements import Announcement
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def known(example: ExampleInstallation) -> None:
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)


@pytest.fixture(name="noon")
def at_noon(example: ExampleInstallation) -> Iterator[datetime]:
    """It is noon, by the database's clock."""
    example.clock.freeze(NOON)
    yield NOON
    example.clock.thaw()


def save(
    example: ExampleInstallation, name: str = "nightly", *, next_at: datetime | None = NOON, **options: Any
) -> None:
    usual: dict[str, Any] = {"cron": "* * * * *", "payload": {"order_ids": [1]}, "user_id": "ana"}
    with pytest.MonkeyPatch.context() as patch:
        if next_at is not None:  # as if it had been saved a while ago
            patch.setattr("turno.capabilities.schedules.recurrence.Rule.next_after", lambda *_: next_at)
        word = Schedules(example.web, example.one).save(
            RecurringJob(name=name, handler=BatchInvoicing, **usual | options)
        )
    assert word in {"created", "changed"}


def fire(engine: Engine) -> TaskReport:
    """Run the task as maintenance does, every tenant's back-off being over."""
    return fire_due(engine, EachTenant(engine))


def sweep(example: ExampleInstallation) -> int:
    report = fire(example.engine)
    assert report.troubles == {}
    return report.done


def fire_rule(engine: Engine, example: ExampleInstallation, due: DueRule, moment: datetime, next_at: datetime) -> int:
    return firing.fire(engine, example.one.schema, due, Firing([moment], next_at, 0), None)


def moments(example: ExampleInstallation) -> list[datetime]:
    rows = example.rows("SELECT r.moment, j.run_at FROM job_schedule_runs r JOIN background_jobs j ON j.id = r.job_id")
    assert all(row["moment"] == row["run_at"] for row in rows)
    jobs = example.rows("SELECT id FROM background_jobs")
    assert len(jobs) == len(rows), "a job of no moment"
    return sorted(row["moment"].astimezone(UTC) for row in rows)


def stored(example: ExampleInstallation) -> dict[str, Any]:
    (row,) = example.rows("SELECT * FROM job_schedules")
    (copy,) = example.rows("SELECT * FROM turno.schedules")
    shared = (copy.keys() & row.keys()) - {"open_jobs"}
    assert {name: row[name] for name in shared} == {name: copy[name] for name in shared}
    return row


def test_a_firing_is_an_ordinary_job_made_ahead_of_its_moment(example: ExampleInstallation, noon: datetime) -> None:
    save(example, next_at=noon + MINUTE, payload={"order_ids": [1, 2]})
    assert sweep(example) == 1
    (job,) = example.rows("SELECT * FROM background_jobs")
    assert (job["type"], job["user_id"], job["payload"], job["run_at"], job["queue"]) == (
        "batch_invoicing", "ana", {"order_ids": [1, 2]}, noon + MINUTE, "cold",
    )  # fmt: skip
    assert (example.ticket(job["id"]) or {})["state"] == "scheduled"
    assert stored(example)["next_at"] == noon + 2 * MINUTE
    example.clock.advance(seconds=61)
    assert example.drain(scheduled=True)["completed"] == 1
    assert example.job(job["id"])["status"] == "completed"


def test_a_tenants_queue_is_the_queue_of_its_schedules(example: ExampleInstallation, noon: datetime) -> None:
    example.rows("UPDATE turno.handlers SET other_queues = '{slow}' WHERE type = 'batch_invoicing'")
    example.rows("UPDATE turno.tenants SET queue = 'slow' WHERE id = %s", example.one.id)
    try:
        save(example, next_at=noon + MINUTE)
        assert sweep(example) == 1
    finally:
        example.rows("UPDATE turno.tenants SET queue = NULL")
        example.rows("UPDATE turno.handlers SET other_queues = '{}'")
    assert example.rows("SELECT queue FROM turno.tickets") == [{"queue": "slow"}]


def test_sweeps_at_once_make_one_job_a_moment(example: ExampleInstallation, noon: datetime) -> None:
    for number in range(20):
        save(example, f"s{number}", next_at=noon)

    def sweep_host(_: int) -> int:
        with Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine:
            report = fire(engine)
            assert report.troubles == {}
            return report.done

    with ThreadPoolExecutor(4) as hosts:
        made = sum(hosts.map(sweep_host, range(4)))
    assert made == 20 * 2  # noon, and the minute after it
    assert len(moments(example)) == made


def test_sweep_killed_before_commit_fires_at_the_next(example: ExampleInstallation, noon: datetime) -> None:
    save(example)
    with service_session(example.logins, example.logins.engine, application="test") as session:
        session.autocommit = False
        engine = Engine.on(session)
        (rule,) = firing.due(engine, example.one.id)
        assert fire_rule(engine, example, rule, noon, noon + MINUTE) == 1
        example.admin.execute("SELECT pg_terminate_backend(%s)", (session.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            session.commit()
    assert moments(example) == []
    assert sweep(example) == 2
    assert moments(example) == [noon, noon + MINUTE]


def test_outdated_schedule_makes_no_job(example: ExampleInstallation, noon: datetime) -> None:
    save(example)
    (rule,) = firing.due(example.engine, example.one.id)
    assert sweep(example) == 2
    assert fire_rule(example.engine, example, rule, noon + 5 * MINUTE, noon + 9 * MINUTE) == 0
    assert moments(example) == [noon, noon + MINUTE]


def test_clock_set_back_repeats_and_stops_no_moment(example: ExampleInstallation, noon: datetime) -> None:
    save(example)
    sweep(example)
    example.clock.advance(hours=1)
    sweep(example)
    before = moments(example)
    example.clock.advance(hours=-1)
    for _ in range(4):
        sweep(example)
        example.clock.advance(seconds=30)
    after = moments(example)
    assert set(before) <= set(after)
    assert len(after) == len(set(after))
    assert noon + 3 * MINUTE in after  # between both: an hour before the moment that was next then
    assert stored(example)["next_at"] == noon + 4 * MINUTE


def test_clock_set_forward_misses_the_moments_between(example: ExampleInstallation, noon: datetime) -> None:
    save(example, cron="0 * * * *", missed="once")
    sweep(example)
    example.clock.advance(days=30)
    assert sweep(example) == 1
    assert moments(example) == [noon, noon + timedelta(days=30)]
    example.clock.advance(hours=5, minutes=30)
    assert sweep(example) == 1  # of five the last one
    assert moments(example)[-1] == noon + timedelta(days=30, hours=5)
    assert "4 moments were missed" in stored(example)["problem"]


def test_moments_while_paused_are_not_missed(example: ExampleInstallation) -> None:
    save(example, next_at=None, missed="all")
    assert Schedules(example.web, example.one).switch("nightly", on=False)
    assert Schedules(example.web, example.one).switch("nightly", on=False)
    assert stored(example)["next_at"] is None
    assert sweep(example) == 0
    assert not Schedules(example.web, example.one, "eve").switch("nightly", on=True)
    assert Schedules(example.web, example.one).switch("nightly", on=True)
    assert stored(example)["next_at"] > datetime.now(UTC)


def test_change_takes_back_exactly_the_future_jobs(example: ExampleInstallation, noon: datetime) -> None:
    save(example)
    sweep(example)
    assert moments(example) == [noon, noon + MINUTE]
    save(example, next_at=noon + MINUTE, payload={"order_ids": [9]})
    assert moments(example) == [noon]
    sweep(example)
    rows = example.rows("SELECT payload, run_at FROM background_jobs ORDER BY run_at")
    assert [(row["payload"]["order_ids"], row["run_at"]) for row in rows] == [([1], noon), ([9], noon + MINUTE)]
    assert len(example.rows("SELECT FROM turno.tickets")) == 2
    assert Schedules(example.web, example.one, "eve").remove("nightly") is False
    assert Schedules(example.web, example.one, "ana").remove("nightly") is True
    assert moments(example) == [noon]
    assert example.rows("SELECT FROM turno.schedules") == []


@pytest.mark.usefixtures("noon")
def test_an_unknown_type_and_a_backlog_say_so_and_make_nothing(example: ExampleInstallation) -> None:
    save(example)
    example.rows("DELETE FROM turno.handlers")
    assert sweep(example) == 0
    assert stored(example)["problem"] == "no handler has the type batch_invoicing"
    assert stored(example)["missed_runs"] == 2
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)
    example.clock.advance(minutes=2)
    assert sweep(example) == 2
    assert stored(example)["problem"] is None
    example.rows("UPDATE turno.handlers SET pending_limit = NULL")
    for _ in range(60):
        example.clock.advance(minutes=2)
        sweep(example)
    assert 100 <= len(moments(example)) <= 101
    assert "of its jobs have not ended" in stored(example)["problem"]


@pytest.mark.usefixtures("noon")
def test_a_paused_tenant_waits_and_a_removed_one_is_gone(example: ExampleInstallation) -> None:
    save(example, missed="skip")
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    try:
        assert sweep(example) == 0
        (row,) = example.rows("SELECT * FROM turno.schedules_listed")
        assert (row["slug"], row["name"], row["tenant_paused_at"] is None) == ("suc0001", "nightly", False)
    finally:
        example.rows("UPDATE turno.tenants SET paused_at = NULL")
    assert sweep(example) == 2
    example.rows("UPDATE turno.tenants SET state = 'removed' WHERE slug = 'suc0001'")
    try:
        example.clock.advance(minutes=2)
        assert sweep(example) == 0
        assert example.rows("SELECT * FROM turno.schedules_listed") == []
    finally:
        example.rows("UPDATE turno.tenants SET state = 'active' WHERE slug = 'suc0001'")


@pytest.mark.usefixtures("noon")
def test_refused_schedule_stops_no_schedule(example: ExampleInstallation) -> None:
    save(example, "a")
    save(example, "b")
    (row,) = example.rows("SELECT id FROM job_schedules WHERE name = 'a'")
    refuse = "ALTER TABLE job_schedule_runs ADD CONSTRAINT broken CHECK (schedule_id <> '{}') NOT VALID"
    example.rows(refuse.format(row["id"]))
    try:
        report = fire(example.engine)
    finally:
        example.rows("ALTER TABLE job_schedule_runs DROP CONSTRAINT broken")
    assert report.done == 2
    assert list(report.troubles) == ["suc0001/a"]
    problems = {row["name"]: row["problem"] for row in example.rows("SELECT name, problem FROM job_schedules")}
    assert problems["b"] is None
    assert "its job was refused" in problems["a"]
    assert sweep(example) == 2  # nothing is lost: its moments are still due


FILL = """
INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)
SELECT 'n' || n, 'batch_invoicing', '{}', 1, 'ana', 3600, 'UTC', 0, 'once', %s
FROM generate_series(1, %s) AS n
"""


def test_paused_tenant_with_many_schedules_stops_no_tenant(example: ExampleInstallation, noon: datetime) -> None:
    paused = example.tenants["suc0002"]
    example.rows(FILL, noon - 10 * MINUTE, 600, tenant=paused)
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0002'")
    try:
        save(example)
        assert sweep(example) == 2
        assert moments(example) == [noon, noon + MINUTE]
    finally:
        example.rows("UPDATE turno.tenants SET paused_at = NULL")
        example.rows("DELETE FROM job_schedules", tenant=paused)


def test_a_locked_table_costs_one_lock_timeout(
    example: ExampleInstallation, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, fires = example.tenants["suc0002"], list[str]()
    slugs = {tenant.schema: slug for slug, tenant in example.tenants.items()}
    real = firing.fire

    def recorded(engine: Engine, schema: str, *given: Any) -> int:
        fires.append(slugs[schema])
        return real(engine, schema, *given)

    monkeypatch.setattr(firing, "fire", recorded)
    example.rows(FILL, noon, 5)
    example.rows(FILL, noon, 1, tenant=other)
    with psycopg.connect(example.url) as locking:
        locking.execute(f'LOCK TABLE "{example.one.schema}".job_schedules')
        report = fire(example.engine)
    assert report.done == 1
    assert list(report.troubles) == ["suc0001"]
    assert fires == ["suc0001", "suc0002"]
    example.rows("UPDATE turno.tenant_failures SET retry_at = now()")
    assert sweep(example) == 5
    example.rows("DELETE FROM job_schedules", tenant=other)
    example.rows("DELETE FROM background_jobs", tenant=other)


@pytest.mark.usefixtures("noon")
def test_a_job_that_stays_open_stops_no_schedule(example: ExampleInstallation) -> None:
    save(example)
    sweep(example)
    (first,) = example.rows("SELECT id FROM background_jobs ORDER BY run_at LIMIT 1")
    for _ in range(70):
        example.clock.advance(minutes=2)
        assert sweep(example) == 2
        example.rows(
            "UPDATE background_jobs SET status = 'cancelled', finished_at = now()"
            " WHERE status = 'pending' AND id <> %s",
            first["id"],
        )
    assert stored(example)["problem"] is None
    assert len(stored(example)["open_jobs"]) == 3


def test_a_host_without_zone_data_leaves_the_schedule_due(
    example: ExampleInstallation, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(example, cron="0 * * * *", zone="America/Argentina/Buenos_Aires")
    with monkeypatch.context() as patch:
        patch.setattr("turno.capabilities.schedules.recurrence.known_zone", lambda _zone: False)
        assert sweep(example) == 0
        assert sweep(example) == 0
    row = stored(example)
    assert (row["next_at"], row["missed_runs"]) == (noon, 0)
    assert "zone" in row["problem"]
    assert sweep(example) == 1
    assert stored(example)["problem"] is None


def test_repair_restores_the_copies(example: ExampleInstallation) -> None:
    save(example, next_at=None)
    copy = example.rows("SELECT * FROM turno.schedules")
    example.rows("UPDATE turno.schedules SET schedule_id = gen_random_uuid()")
    assert repair(example.engine, EachTenant(example.engine)).done == 2
    assert example.rows("SELECT * FROM turno.schedules") == copy


def test_a_job_waits_in_the_queue_of_its_schedule(
    example: ExampleInstallation, noon: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchInvoicing, "other_queues", ("hot",))
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4, other_queues=("hot",))], 20)
    save(example, queue="hot")
    assert sweep(example) == 2
    assert {row["queue"] for row in example.rows("SELECT queue FROM turno.tickets")} == {"hot"}
    example.engine.announce([Announcement("batch_invoicing", 1, "cold", 4)], 20)
    example.clock.freeze(noon + 2 * MINUTE)
    assert sweep(example) == 0
    assert stored(example)["problem"] == "no handler has the type batch_invoicing and the queue hot"
    save(example)
    assert stored(example)["queue"] is None


def test_a_tenant_has_at_most_a_thousand(example: ExampleInstallation) -> None:
    example.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " SELECT 'n' || n, 'batch_invoicing', '{}', 1, 'ana', 60, 'UTC', 0, 'once', '2999-01-01'"
        " FROM generate_series(1, 999) AS n"
    )
    save(example, "last")
    extra = RecurringJob(name="more", handler=BatchInvoicing, payload={}, user_id="ana", every=60)
    assert Schedules(example.web, example.one).save(extra) == "full"


def test_a_user_saves_at_most_a_tenth_of_the_schedules(example: ExampleInstallation) -> None:
    wanted = [
        RecurringJob(name=f"n{n}", handler=BatchInvoicing, payload={}, user_id="ana", every=60) for n in range(101)
    ]
    for recurring in wanted[:100]:
        assert Schedules(example.web, example.one, "ana").save(recurring) == "created"
    assert Schedules(example.web, example.one, "ana").save(wanted[100]) == "full"
    assert Schedules(example.web, example.one, "ana").save(wanted[99]) == "changed"
    others = replace(wanted[100], user_id="bob")
    assert Schedules(example.web, example.one, "bob").save(others) == "created"


def test_open_jobs_of_schedules_count_in_the_quota(example: ExampleInstallation, noon: datetime) -> None:
    save(example)
    assert sweep(example) > 0
    example.rows("UPDATE turno.handlers SET pending_limit = 1")
    example.clock.freeze(noon + 3 * MINUTE)
    assert sweep(example) == 0
    assert stored(example)["problem"] == "its user has as many open jobs as allowed"
    example.rows("UPDATE job_schedules SET open_jobs = '{}'")
    example.clock.freeze(noon + 6 * MINUTE)
    assert sweep(example) > 0, "a schedule without an open job fires however many jobs its user has"
    example.rows("UPDATE turno.handlers SET pending_limit = 20")


@pytest.mark.usefixtures("noon")
def test_runs_go_with_their_jobs(example: ExampleInstallation) -> None:
    save(example)
    sweep(example)
    example.rows("DELETE FROM turno.tickets")
    example.rows("UPDATE background_jobs SET status = 'cancelled', finished_at = now() - interval '1 year'")
    assert example.engine.purge(example.one.schema, timedelta(days=30), 10) == 2
    assert moments(example) == []
