"""What the relay asks of the tickets: a bounded window, turns, caps, and marks that touch nothing that was claimed."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from app.jobs.job import Priority
from app.jobs.message import Message
from app.store import broker, leases, tickets
from tests.world import World

TYPES = [("batch_invoicing", 1)]
TIME = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def rabbitmq_backend(world: World) -> Iterator[None]:
    world.backend = "rabbitmq"
    yield
    world.rows("UPDATE turno.tenants SET cap = NULL, paused_at = NULL")
    world.rows("TRUNCATE turno.job_types")


def put(world: World, count: int, *, other: bool = False, priority: Priority = Priority.NORMAL) -> list[UUID]:
    tenant = world.other if other else world.one
    return [world.enqueue({"order_ids": [1]}, tenant=tenant, priority=priority) for _ in range(count)]


def publish(world: World, window: int = 4, limit: int = 100) -> list[Message]:
    sent = [one.message for one in broker.unpublished(world.engine, window, limit)]
    broker.mark_published(world.engine, sent)
    return sent


def a_worker(world: World) -> UUID:
    return tickets.start_worker(world.engine, backend="rabbitmq", host="here", pid=1)


def test_a_tenant_fills_its_window_once_and_again_as_it_is_emptied(world: World) -> None:
    jobs = put(world, 10)
    first = publish(world)
    assert [message.job_id for message in first] == jobs[:4]
    assert {message.schema for message in first} == {world.one.schema}
    assert publish(world) == []
    worker = a_worker(world)
    assert broker.claim_message(world.engine, worker, first[2], types=TYPES)
    assert [message.job_id for message in publish(world)] == jobs[4:5]


def test_each_band_has_a_window_and_tenants_take_turns_within_it(world: World) -> None:
    put(world, 10)
    put(world, 2, other=True)
    put(world, 1, priority=Priority.URGENT)
    outgoing = broker.unpublished(world.engine, 4, 100)
    assert [one.band for one in outgoing] == [Priority.URGENT] + [Priority.NORMAL] * 6
    one, other = world.one.schema, world.other.schema
    assert [sent.message.schema for sent in outgoing] == [one, one, other, one, other, one, one]
    assert len(broker.unpublished(world.engine, 4, 3)) == 3


def test_what_could_not_be_claimed_is_not_published(world: World) -> None:
    put(world, 5)
    put(world, 5, other=True)
    world.rows("UPDATE turno.tenants SET cap = 2 WHERE slug = 'suc0001'")
    world.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0002'")
    sent = publish(world)
    assert Counter(message.schema for message in sent) == {world.one.schema: 2}
    worker = a_worker(world)
    assert all(broker.claim_message(world.engine, worker, message, types=TYPES) for message in sent)
    assert publish(world) == []
    world.rows("UPDATE turno.tenants SET cap = NULL, paused_at = NULL")
    world.rows("INSERT INTO turno.job_types (type, cap) VALUES ('batch_invoicing', 2)")
    assert publish(world) == []
    world.rows("UPDATE turno.job_types SET cap = NULL")
    assert len(publish(world)) == 7


def test_a_mark_that_comes_late_touches_no_later_attempt(world: World) -> None:
    (job_id,) = put(world, 1)
    (message,) = [one.message for one in broker.unpublished(world.engine, 4, 100)]
    worker = a_worker(world)
    assert broker.claim_message(world.engine, worker, message, types=TYPES)
    broker.mark_published(world.engine, [message])
    assert (world.ticket(job_id) or {})["published_at"] is None
    world.rows("UPDATE turno.tickets SET state = 'ready', worker_id = NULL, token = NULL")
    broker.mark_published(world.engine, [message])
    assert (world.ticket(job_id) or {})["published_at"] is None
    broker.mark_published(world.engine, [Message(job_id, message.schema, 1)])
    assert (world.ticket(job_id) or {})["published_at"] is not None


def test_what_nobody_took_for_long_is_published_again_by_its_band(world: World) -> None:
    put(world, 2)
    put(world, 1, priority=Priority.LOW)
    publish(world)
    world.rows("UPDATE turno.tickets SET published_at = now() - interval '16 s'")
    assert broker.unpublish(world.engine, Priority.NORMAL, timedelta(seconds=17)) == 0
    assert broker.unpublish(world.engine, Priority.NORMAL, timedelta(seconds=15)) == 2
    assert len(publish(world)) == 2


def test_a_message_is_believed_only_as_far_as_the_ticket_agrees(world: World) -> None:
    (job_id,) = put(world, 1)
    worker = a_worker(world)
    assert broker.claim_message(world.engine, worker, Message(job_id, world.other.schema, 0), types=TYPES) is None
    right = Message(job_id, world.one.schema, 0)
    assert broker.claim_message(world.engine, worker, right, types=[("something_else", 1)]) is None
    claim = broker.claim_message(world.engine, worker, right, types=TYPES)
    assert claim is not None
    assert claim.attempt == 1
    assert broker.claim_message(world.engine, worker, right, types=TYPES) is None


def test_a_lease_is_kept_by_its_holder_and_taken_over_when_dropped_or_over(world: World) -> None:
    assert leases.keep(world.engine, "relay", "a", TIME)
    assert leases.keep(world.engine, "relay", "a", TIME)
    assert not leases.keep(world.engine, "relay", "b", TIME)
    leases.drop(world.engine, "relay", "b")
    assert not leases.keep(world.engine, "relay", "b", TIME)
    leases.drop(world.engine, "relay", "a")
    assert leases.keep(world.engine, "relay", "b", TIME)
    world.rows("UPDATE turno.leases SET until = now() - interval '1 s'")
    assert leases.keep(world.engine, "relay", "a", TIME)
