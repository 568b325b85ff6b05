"""An event is published in the transaction of the business, and each subscriber gets one job."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner

import turno
from tests.event_handlers import NEWER, REGISTRY, REGISTRY_PATH, Pay
from tests.installation import ExampleInstallation
from turno.capabilities.events import stored
from turno.capabilities.events.data import check_event
from turno.capabilities.events.stored import Page, Replay
from turno.commands.main import main
from turno.jobs.handler import Registry
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import as_api, handler_session
from turno.testing.in_process_worker import InProcessWorker
from turno.wiring.shared import maintenance

BOTH = Counter(send_receipt=1, ledger=1)


@pytest.fixture(autouse=True)
def subscribed(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TURNO_HANDLERS", REGISTRY_PATH)
    example.registry = REGISTRY_PATH
    tell(example, REGISTRY)
    yield
    example.rows("DELETE FROM turno.subscriptions")


@pytest.fixture
def business(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    """A session of the application's, in a transaction; which role it has does not matter here."""
    with psycopg.connect(example.url) as session:
        yield session
        session.rollback()


def tell(example: ExampleInstallation, registry: Registry) -> None:
    example.engine.announce(of(registry), 20)


def jobs(example: ExampleInstallation) -> Counter[str]:
    return Counter(row["type"] for row in example.rows("SELECT type FROM background_jobs WHERE type <> 'pay'"))


def sweep(example: ExampleInstallation) -> dict[str, int]:
    passes = maintenance(example.settings)
    try:
        return passes.run_once()
    finally:
        passes.close()


def pass_time(example: ExampleInstallation, interval: str) -> None:
    example.rows("UPDATE turno.handlers SET seen_at = seen_at - %s::interval", interval)
    example.rows("UPDATE turno.subscriptions SET seen_at = seen_at - %s::interval", interval)


def replay_of(job_type: str, *, missing: bool = False) -> Replay:
    now = datetime.now(UTC)
    return Replay(job_type, None, now - timedelta(hours=1), now + timedelta(hours=1), missing)


def run(example: ExampleInstallation) -> Counter[str]:
    example.backend = "exec"
    return InProcessWorker(example, REGISTRY).drain()


def test_each_subscriber_has_one_job_after_the_commit(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    published = turno.publish(business, "suc0001", "order.paid", order_id=7, key="customer-3", user="ana")
    assert published.jobs == 2
    assert jobs(example) == Counter()
    business.commit()
    assert jobs(example) == BOTH
    assert example.rows("SELECT id, name, key, data, user_id FROM background_events") == [
        {"id": published.event_id, "name": "order.paid", "key": "customer-3", "data": {"order_id": 7}, "user_id": "ana"}
    ]
    assert example.rows("SELECT DISTINCT user_id, payload, origin FROM background_jobs") == [
        {"user_id": "ana", "payload": {"order_id": 7}, "origin": f"event {published.event_id}"}
    ]
    keys = {
        row["type"]: row["concurrency_key"] for row in example.rows("SELECT type, concurrency_key FROM background_jobs")
    }
    assert keys == {"send_receipt": None, "ledger": "customer-3"}
    assert example.rows("SELECT id FROM background_events", tenant=example.other) == []


def test_a_tenants_queue_is_the_queue_of_its_subscribers(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    example.rows("UPDATE turno.handlers SET other_queues = '{slow}' WHERE type = 'send_receipt'")
    example.rows("UPDATE turno.tenants SET queue = 'slow' WHERE id = %s", example.one.id)
    try:
        for tenant in ("suc0001", "suc0002"):
            turno.publish(business, tenant, "order.paid", order_id=7)
        business.commit()
    finally:
        example.rows("UPDATE turno.tenants SET queue = NULL")
        tell(example, REGISTRY)
    queues = example.rows("SELECT tenant_id, type, queue FROM turno.tickets ORDER BY tenant_id, type")
    usual = queues[2]["queue"]
    assert [(row["type"], row["queue"]) for row in queues] == [
        ("ledger", usual), ("send_receipt", "slow"), ("ledger", usual), ("send_receipt", usual)
    ]  # fmt: skip


def test_rolled_back_event_was_never_published(example: ExampleInstallation, business: psycopg.Connection[Any]) -> None:
    turno.publish(business, "suc0001", "order.paid", order_id=7)
    business.rollback()
    assert (jobs(example), example.rows("SELECT id FROM background_events")) == (Counter(), [])


def test_a_subscriber_gets_earlier_events_only_by_replay(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    example.rows("DELETE FROM turno.subscriptions")
    for order in (1, 2):
        assert turno.publish(business, "suc0001", "order.paid", order_id=order).jobs == 0
    business.commit()
    tell(example, REGISTRY)
    turno.publish(business, "suc0001", "order.paid", order_id=3)
    business.commit()
    sweep(example)
    assert jobs(example) == BOTH
    missing = replay_of("ledger", missing=True)
    with as_api(example.web, example.one) as reader:
        assert stored.replay(reader, missing, Page(None, 500), backend="exec", dry_run=False)[0] == 2
        assert stored.replay(reader, missing, Page(None, 500), backend="exec", dry_run=False)[0] == 0
    assert jobs(example) == Counter(ledger=3, send_receipt=1)


def test_a_deployment_and_an_open_publication_do_not_wait(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    example.rows("DELETE FROM turno.subscriptions WHERE type = 'ledger'")
    turno.publish(business, "suc0001", "order.paid", order_id=7)
    impatient = "-c lock_timeout=1ms"
    with psycopg.connect(example.url, options=impatient) as deployment, deployment.transaction():
        Engine.on(deployment).announce(of(REGISTRY), 20)
        with psycopg.connect(example.url, options=impatient) as another:
            assert turno.publish(another, "suc0002", "order.paid", order_id=8).jobs == 1
    assert turno.publish(business, "suc0001", "order.paid", order_id=9).jobs == 2
    business.commit()
    assert jobs(example) == Counter(send_receipt=2, ledger=1)


def test_publish_in_a_snapshot_delivers_to_its_subscribers(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    example.rows("DELETE FROM turno.subscriptions WHERE type = 'ledger'")
    business.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    business.execute("SELECT 1")
    tell(example, REGISTRY)
    assert turno.publish(business, "suc0001", "order.paid", order_id=1).jobs == 1
    business.commit()
    assert turno.publish(business, "suc0001", "order.paid", order_id=2).jobs == 2


def test_two_releases_in_turn_lose_no_event(
    example: ExampleInstallation, business: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maintenance of both runs during a rolling deployment; the new release subscribes to one event more."""
    old = maintenance(example.settings)
    monkeypatch.setenv("TURNO_HANDLERS", NEWER)
    example.registry = NEWER
    new = maintenance(example.settings)
    with closing(old), closing(new):
        new.run_leased()
        delivered = []
        for order in range(6):
            (old, new)[order % 2].run_leased()
            delivered.append(turno.publish(business, "suc0001", "order.refunded", order_id=order).jobs)
            business.commit()
    assert delivered == [2] * 6


def test_each_process_announces_without_the_lease(example: ExampleInstallation) -> None:
    example.rows("DELETE FROM turno.subscriptions")
    engine = example.engine
    assert engine.take_lease("maintenance", "another process", timedelta(seconds=9))
    with closing(maintenance(example.settings)) as passes:
        passes.run_leased()
    example.rows("DELETE FROM turno.leases")
    assert len(example.rows("SELECT FROM turno.subscriptions")) == 5


def test_a_subscription_ends_a_day_after_its_last_announcement(example: ExampleInstallation) -> None:
    older = [replace(job_type, subscribes=()) if job_type.type == "ledger" else job_type for job_type in of(REGISTRY)]
    subscribed = "SELECT event FROM turno.subscriptions WHERE type = 'ledger' ORDER BY 1"
    both = [{"event": "order.paid"}, {"event": "order.refunded"}]
    for time, expected in (("23 hours 59 minutes", both), ("2 minutes", [])):
        example.rows("UPDATE turno.subscriptions SET seen_at = seen_at - %s::interval WHERE type = 'ledger'", time)
        example.engine.announce(older, 20)
        assert example.rows(subscribed) == expected
    assert example.rows("SELECT FROM turno.handlers WHERE type = 'ledger'") != []


def test_no_subscription_ends_while_nothing_is_announced(example: ExampleInstallation) -> None:
    everything = "SELECT count(*) FROM turno.subscriptions"
    pass_time(example, "3 days")
    before = example.rows(everything)
    example.engine.announce(of(REGISTRY)[:1], 20)
    example.engine.prune(timedelta(days=2), timedelta(days=30), 1000)
    assert example.rows(everything) == before


def test_order_applies_while_a_release_requests_it(example: ExampleInstallation) -> None:
    example.engine.announce([replace(job_type, ordered=False) for job_type in of(REGISTRY)], 20)
    requested = "SELECT ordered FROM turno.subscriptions WHERE type = 'stock' ORDER BY 1"
    assert example.rows(requested) == [{"ordered": False}, {"ordered": True}]
    example.rows("UPDATE turno.subscriptions SET seen_at = seen_at - interval '25 hours' WHERE ordered")
    example.engine.announce([], 20)
    assert example.rows(requested) == [{"ordered": False}]


def test_announcements_write_once_a_minute(example: ExampleInstallation) -> None:
    seen = "SELECT max(seen_at) AS at FROM turno.subscriptions UNION ALL SELECT max(seen_at) FROM turno.handlers"
    before = example.rows(seen)
    tell(example, REGISTRY)
    assert example.rows(seen) == before
    pass_time(example, "61 seconds")
    tell(example, REGISTRY)
    assert all(then["at"] < now["at"] for then, now in zip(before, example.rows(seen), strict=True))


def test_the_commands_list_and_remove_subscriptions(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    requested = [["subscriptions"], ["unsubscribe", "order.paid", "ledger"], ["unsubscribe", "order.paid", "ledger"]]
    outputs = [CliRunner().invoke(main, ["event", *arguments], prog_name="turno").output for arguments in requested]
    assert outputs[0].count("ledger") == 2
    assert outputs[1] == "ledger no longer subscribes to order.paid\n"
    assert "ledger does not subscribe to order.paid" in outputs[2]
    assert example.rows("SELECT event FROM turno.subscriptions WHERE type = 'ledger'") == [{"event": "order.refunded"}]


def test_the_command_lists_events_and_replays_them(
    example: ExampleInstallation, business: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    published = turno.publish(business, "suc0001", "order.paid", order_id=7)
    business.commit()
    listed = CliRunner().invoke(main, ["event", "list", "--tenant", "suc0001", "--json"], prog_name="turno")
    (row,) = json.loads(listed.output)
    assert (row["id"], sorted(row["jobs"])) == (str(published.event_id), ["ledger", "send_receipt"])
    replay = ["event", "replay", "--tenant", "suc0001", "--since", "2026-01-01T00:00:00Z", "--type"]
    requested = [[*replay, "ledger", "--dry-run"], [*replay, "ledger"], [*replay, "pay"]]
    outputs = [CliRunner().invoke(main, arguments, prog_name="turno").output for arguments in requested]
    assert outputs[0] == "1 event would be replayed for ledger\n"
    assert outputs[1] == "1 event replayed for ledger\n"
    assert "pay subscribes to no event" in outputs[2]
    assert jobs(example) == Counter(ledger=2, send_receipt=1)


def test_replay_makes_jobs_of_one_subscriber_in_order(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    for order in range(5):
        turno.publish(business, "suc0001", "order.paid", order_id=order)
    business.commit()
    run(example)
    with as_api(example.web, example.one) as reader:
        requested = (reader, replay_of("ledger"))
        assert stored.replay(*requested, Page(None, 500), backend="exec", dry_run=True)[0] == 5
        done, last = stored.replay(*requested, Page(None, 3), backend="exec", dry_run=False)
        assert (done, stored.replay(*requested, Page(last, 3), backend="exec", dry_run=False)[0]) == (3, 2)
    waiting = "SELECT payload FROM background_jobs WHERE type = 'ledger' AND status = 'pending' ORDER BY run_at"
    again = example.rows(waiting)
    assert [row["payload"]["order_id"] for row in again] == [0, 1, 2, 3, 4]
    assert jobs(example) == Counter(send_receipt=5, ledger=10)


def test_a_job_publishes_with_its_own_work(example: ExampleInstallation) -> None:
    good = example.enqueue({"order_id": 7}, handler=Pay)
    bad = example.enqueue({"order_id": 8, "note": "fail"}, handler=Pay)
    run(example)
    assert (example.job(good)["result"], example.job(bad)["status"]) == ({"jobs": 2}, "failed")
    assert jobs(example) == BOTH
    (parent,) = example.rows("SELECT DISTINCT parent_id FROM background_jobs WHERE type = 'ledger'")
    assert parent["parent_id"] == good


def test_lost_claim_publishes_nothing(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_id": 7}, handler=Pay)
    assert InProcessWorker(example, REGISTRY).claim(job_id) is not None
    call = "SELECT event_id FROM event_publish_child(%s, %s, 'order.paid', NULL, '{\"order_id\": 7}')"
    login = handler_session(example.logins, example.handler_login(), application="test", kind=psycopg.Connection)
    with login as session, pytest.raises(psycopg.Error, match=r"the claim on job .* was lost"):
        session.execute(example.sql(call), (job_id, uuid4()))
    assert jobs(example) == Counter()


def test_check_event_keeps_fields_of_no_subscriber() -> None:
    data = check_event([], "order.paid", {"amount": Decimal("10.10"), "lines": (date(2026, 1, 1),)})
    assert data == {"amount": "10.10", "lines": ["2026-01-01"]}


def test_event_with_invalid_data_is_refused_by_subscriber(business: psycopg.Connection[Any]) -> None:
    with pytest.raises(turno.InvalidPayload, match=r"order_id: .*, says ledger"):
        turno.publish(business, "suc0001", "order.paid", order_id="seven")


@pytest.mark.parametrize(
    ("requested", "reply"),
    [
        ({"tenant": "suc9999"}, "no active tenant is called 'suc9999'"),
        ({"event": "Order Paid"}, "is no name of an event"),
        ({"key": "a key"}, "a key has 1 to 255"),
    ],
)
def test_invalid_publication_is_refused(
    business: psycopg.Connection[Any], requested: dict[str, str], reply: str
) -> None:
    given = {"tenant": "suc0001", "event": "order.paid", "key": "k"} | requested
    with pytest.raises(turno.NotEnqueued, match=reply):
        turno.publish(business, given["tenant"], given["event"], order_id=1, key=given["key"])


def test_events_are_purged_with_their_age_and_their_jobs_stay(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    turno.publish(business, "suc0001", "order.paid", order_id=7)
    business.commit()
    example.rows("UPDATE background_events SET published_at = published_at - interval '2 years'")
    assert sweep(example)["events purged"] == 1
    assert example.rows("SELECT event_id FROM background_event_jobs") == []
    assert jobs(example) == BOTH


def test_events_of_a_job_stop_at_the_limit_of_child_jobs(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_id": 7}, handler=Pay)
    example.rows(
        "INSERT INTO background_jobs (type, version, queue, priority, payload, user_id, max_attempts)"
        " SELECT type, version, queue, priority, payload, user_id, 1 FROM background_jobs, generate_series(1, 998)"
    )
    try:
        run(example)
        job = example.job(job_id)
        assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
        assert "more than 1000 open jobs" in job["error"]["message"]
        assert jobs(example) == Counter()
    finally:
        example.rows("DELETE FROM background_jobs WHERE status = 'pending'")


def test_a_replay_of_another_name_is_refused(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    requested = ["event", "replay", "--tenant", "suc0001", "--since", "2026-01-01T00:00:00Z", "--type", "ledger"]
    output = CliRunner().invoke(main, [*requested, "--name", "stock.moved"], prog_name="turno").output
    assert "ledger does not subscribe to stock.moved; its events are order.paid, order.refunded" in output
