"""An event is published with the business that it tells of, and each subscriber has one job for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

import turno
from tests.event_handlers import PLACE, REGISTRY, Pay
from tests.installation import ExampleInstallation
from turno.commands.main import main
from turno.jobs.registry import Registry
from turno.store.api import events as stored
from turno.store.api.events import Page
from turno.store.engine.announcements import announce, of
from turno.tenancy.identity.session import as_api, handler_session, service_session
from turno.testing.in_process_worker import InProcessWorker
from turno.wiring.shared import maintenance

BOTH = Counter(send_receipt=1, ledger=1)


@pytest.fixture(autouse=True)
def subscribed(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HANDLERS", PLACE)
    world.registry = PLACE
    tell(world, REGISTRY)
    world.rows("UPDATE turno.subscriptions SET backlog = false")
    yield
    world.rows("DELETE FROM turno.subscriptions")


@pytest.fixture
def business(world: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    """A session of the application's, in a transaction; which role it has does not matter here."""
    with psycopg.connect(world.url) as session:
        yield session
        session.rollback()


def tell(world: ExampleInstallation, registry: Registry) -> None:
    announce(world.engine, of(registry), 20)


def jobs(world: ExampleInstallation) -> Counter[str]:
    return Counter(row["type"] for row in world.rows("SELECT type FROM background_jobs WHERE type <> 'pay'"))


def sweep(world: ExampleInstallation) -> dict[str, int]:
    passes = maintenance(world.settings)
    try:
        return passes.run_once()
    finally:
        passes.close()


def engine_session(world: ExampleInstallation) -> AbstractContextManager[psycopg.Connection[Any]]:
    return service_session(world.logins, world.logins.engine, application="test")


def run(world: ExampleInstallation) -> Counter[str]:
    world.backend = "exec"
    return InProcessWorker(world, REGISTRY).drain()


def test_each_subscriber_has_one_job_once_the_business_has_committed(
    world: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    published = turno.publish(business, "suc0001", "order.paid", order_id=7, key="customer-3", user="ana")
    assert published.jobs == 2
    assert jobs(world) == Counter()
    business.commit()
    assert jobs(world) == BOTH
    assert world.rows("SELECT id, name, key, data, user_id FROM background_events") == [
        {"id": published.event_id, "name": "order.paid", "key": "customer-3", "data": {"order_id": 7}, "user_id": "ana"}
    ]
    assert world.rows("SELECT DISTINCT user_id, payload FROM background_jobs") == [
        {"user_id": "ana", "payload": {"order_id": 7}}
    ]
    keys = {
        row["type"]: row["concurrency_key"] for row in world.rows("SELECT type, concurrency_key FROM background_jobs")
    }
    assert keys == {"send_receipt": None, "ledger": "customer-3"}
    assert world.rows("SELECT id FROM background_events", tenant=world.other) == []


def test_what_is_rolled_back_was_never_published(world: ExampleInstallation, business: psycopg.Connection[Any]) -> None:
    turno.publish(business, "suc0001", "order.paid", order_id=7)
    business.rollback()
    assert (jobs(world), world.rows("SELECT id FROM background_events")) == (Counter(), [])


def test_an_event_without_subscribers_is_kept_for_those_to_come(
    world: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    world.rows("DELETE FROM turno.subscriptions")
    assert turno.publish(business, "suc0001", "order.paid", order_id=7).jobs == 0
    business.commit()
    tell(world, REGISTRY)
    assert sweep(world)["delivered"] == 1
    assert jobs(world) == Counter(ledger=1)  # from the beginning, and not who is subscribed from now on
    assert sweep(world)["delivered"] == 0
    assert world.rows("SELECT event FROM turno.subscriptions WHERE backlog") == []


def test_a_new_subscriber_waits_for_the_transactions_that_have_published(
    world: ExampleInstallation, business: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    world.rows("DELETE FROM turno.subscriptions WHERE type = 'ledger'")
    turno.publish(business, "suc0001", "order.paid", order_id=7)
    world.admin.execute("ALTER FUNCTION turno.subscribe SET lock_timeout = '50ms'")
    try:
        tell(world, REGISTRY)
        assert "subscriptions not changed yet" in caplog.text
        assert world.rows("SELECT event FROM turno.subscriptions WHERE type = 'ledger'") == []
        business.commit()
        tell(world, REGISTRY)
    finally:
        world.admin.execute("ALTER FUNCTION turno.subscribe SET lock_timeout = '5s'")
    turno.publish(business, "suc0001", "order.paid", order_id=8)
    business.commit()
    assert sweep(world)["delivered"] == 1
    assert jobs(world) == Counter(send_receipt=2, ledger=2)


def test_code_that_is_older_takes_no_subscription_away(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.handlers SET version = 2 WHERE type = 'ledger'")
    older = [one._replace(subscribes=()) for one in of(REGISTRY)]
    announce(world.engine, older, 20)
    assert world.rows("SELECT event, type FROM turno.subscriptions ORDER BY 1") == [
        {"event": "order.paid", "type": "ledger"},
        {"event": "order.refunded", "type": "ledger"},
    ]
    world.rows("UPDATE turno.handlers SET version = 1 WHERE type = 'ledger'")


def test_the_command_lists_events_and_replays_them(
    world: ExampleInstallation, business: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    published = turno.publish(business, "suc0001", "order.paid", order_id=7)
    business.commit()
    listed = CliRunner().invoke(main, ["events", "list", "--tenant", "suc0001", "--json"], prog_name="turno")
    (row,) = json.loads(listed.output)
    assert (row["id"], sorted(row["jobs"])) == (str(published.event_id), ["ledger", "send_receipt"])
    replay = ["events", "replay", "--tenant", "suc0001", "--since", "2026-01-01T00:00:00", "--type"]
    asked = [[*replay, "ledger", "--dry-run"], [*replay, "ledger"], [*replay, "pay"]]
    said = [CliRunner().invoke(main, one, prog_name="turno").output for one in asked]
    assert said[0] == "1 events would be given to ledger again\n"
    assert said[1] == "1 events were given to ledger again\n"
    assert "pay subscribes to no event" in said[2]
    assert jobs(world) == Counter(ledger=2, send_receipt=1)


def test_a_replay_makes_new_jobs_of_one_subscriber_in_their_order(
    world: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    for order in range(5):
        turno.publish(business, "suc0001", "order.paid", order_id=order)
    business.commit()
    run(world)
    now = datetime.now(UTC)
    with as_api(world.web, world.one) as reader:
        asked = (reader, "ledger", now - timedelta(hours=1), now + timedelta(hours=1))
        assert stored.replay(*asked, Page(None, 500), backend="exec", dry_run=True)[0] == 5
        done, last = stored.replay(*asked, Page(None, 3), backend="exec", dry_run=False)
        assert (done, stored.replay(*asked, Page(last, 3), backend="exec", dry_run=False)[0]) == (3, 2)
    waiting = "SELECT payload FROM background_jobs WHERE type = 'ledger' AND status = 'pending' ORDER BY run_at"
    again = world.rows(waiting)
    assert [row["payload"]["order_id"] for row in again] == [0, 1, 2, 3, 4]
    assert jobs(world) == Counter(send_receipt=5, ledger=10)


def test_a_job_publishes_with_its_own_work(world: ExampleInstallation) -> None:
    good = world.enqueue({"order_id": 7}, handler=Pay)
    bad = world.enqueue({"order_id": 8, "note": "fail"}, handler=Pay)
    run(world)
    assert (world.job(good)["result"], world.job(bad)["status"]) == ({"jobs": 2}, "failed")
    assert jobs(world) == BOTH
    (parent,) = world.rows("SELECT DISTINCT parent_id FROM background_jobs WHERE type = 'ledger'")
    assert parent["parent_id"] == good


def test_whoever_lost_the_claim_publishes_nothing(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"order_id": 7}, handler=Pay)
    assert InProcessWorker(world, REGISTRY).claim(job_id) is not None
    call = "SELECT event_id FROM event_publish_child(%s, %s, 'order.paid', NULL, '{\"order_id\": 7}')"
    login = handler_session(world.logins, world.handler_login(), application="test", kind=psycopg.Connection)
    with login as session, pytest.raises(psycopg.Error, match=r"the claim on job .* was lost"):
        session.execute(call, (job_id, uuid4()))
    assert jobs(world) == Counter()


def test_an_event_that_a_subscriber_would_refuse_is_refused_by_name(business: psycopg.Connection[Any]) -> None:
    with pytest.raises(turno.InvalidPayload, match=r"order_id: .*, says ledger"):
        turno.publish(business, "suc0001", "order.paid", order_id="seven")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"tenant": "suc9999"}, "no active tenant is called 'suc9999'"),
        ({"event": "Order Paid"}, "is no name of an event"),
        ({"key": "a key"}, "a key has 1 to 255"),
    ],
)
def test_what_cannot_be_published_is_told(business: psycopg.Connection[Any], asked: dict[str, str], told: str) -> None:
    given = {"tenant": "suc0001", "event": "order.paid", "key": "k"} | asked
    with pytest.raises(turno.NotEnqueued, match=told):
        turno.publish(business, given["tenant"], given["event"], order_id=1, key=given["key"])


def test_an_older_snapshot_is_refused(business: psycopg.Connection[Any]) -> None:
    business.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(turno.NotEnqueued, match="READ COMMITTED"):
        turno.publish(business, "suc0001", "order.paid", order_id=1)


def test_events_are_purged_with_their_age_and_their_jobs_stay(
    world: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    turno.publish(business, "suc0001", "order.paid", order_id=7)
    business.commit()
    world.rows("UPDATE background_events SET published_at = published_at - interval '2 years'")
    sweep(world)
    assert world.rows("SELECT event_id FROM background_event_jobs") == []
    assert jobs(world) == BOTH


def test_two_that_deliver_one_backlog_make_one_job(
    world: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    world.rows("DELETE FROM turno.subscriptions")
    turno.publish(business, "suc0001", "order.paid", order_id=7)
    business.commit()
    deliver = sql.SQL("SELECT {}.event_backlog('order.paid', 'ledger', 'exec', 10)").format(
        sql.Identifier(world.one.schema)
    )
    with engine_session(world) as one, engine_session(world) as other:
        one.execute("BEGIN")
        assert one.execute(deliver).fetchone() == (1,)
        assert other.execute(deliver).fetchone() == (0,)
        one.execute("COMMIT")
        assert other.execute(deliver).fetchone() == (0,)
    assert jobs(world) == Counter(ledger=1)
