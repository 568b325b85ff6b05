"""The relay's view of the tickets: a bounded window, turns, caps, and marks that touch no claimed job."""

from collections import Counter, deque
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from tests.installation import ExampleInstallation
from turno.capabilities.rabbitmq.message import Message, claim_message, mark_published, unpublish, unpublished
from turno.jobs.job import Claim, Priority

TYPES = [("batch_invoicing", 1)]
TIME = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def rabbitmq_backend(example: ExampleInstallation) -> Iterator[None]:
    example.backend = "rabbitmq"
    a_worker(example)
    yield
    example.rows("UPDATE turno.tenants SET cap = NULL, paused_at = NULL")
    example.rows("TRUNCATE turno.job_types")


def put(
    example: ExampleInstallation, count: int, *, other: bool = False, priority: Priority = Priority.NORMAL
) -> list[UUID]:
    tenant = example.other if other else example.one
    return [example.enqueue({"order_ids": [1]}, tenant=tenant, priority=priority) for _ in range(count)]


def publish(example: ExampleInstallation, window: int = 4, limit: int = 100) -> list[Message]:
    sent = unpublished(example.engine, window, limit)
    mark_published(example.engine, sent)
    return sent


def a_worker(example: ExampleInstallation) -> UUID:
    return example.engine.start_worker(backend="rabbitmq", host="here", pid=1, types=TYPES)


def test_tenant_fills_its_window_once_and_after_each_drain(example: ExampleInstallation) -> None:
    jobs = put(example, 10)
    first = publish(example)
    assert [message.job_id for message in first] == jobs[:4]
    assert {message.schema for message in first} == {example.one.schema}
    assert publish(example) == []
    worker = a_worker(example)
    assert claim_message(example.engine, worker, first[0], types=TYPES)
    assert [message.job_id for message in publish(example)] == jobs[4:5]


def test_window_is_per_tenant_and_tenants_take_turns(example: ExampleInstallation) -> None:
    low = put(example, 10, priority=Priority.LOW)
    example.rows("UPDATE turno.tickets SET type = 'taxpayer_sync' WHERE job_id = ANY (%s)", low[1::2])
    example.engine.start_worker(backend="rabbitmq", host="here", pid=1, types=[("taxpayer_sync", 1)])
    others = put(example, 2, other=True)
    (urgent,) = put(example, 1, priority=Priority.URGENT)
    outgoing = unpublished(example.engine, 4, 100)
    assert [sent.job_id for sent in outgoing] == [urgent, others[0], low[0], others[1], *low[1:3]]
    assert len(unpublished(example.engine, 4, 3)) == 3


def test_unknown_type_is_not_published_and_hides_nothing(example: ExampleInstallation) -> None:
    put(example, 20)
    example.rows("UPDATE turno.tickets SET type = 'monthly_report'")
    put(example, 20)
    example.rows("UPDATE turno.tickets SET version = 2 WHERE type = 'batch_invoicing'")
    known = put(example, 3)
    example.rows("UPDATE turno.tickets SET run_at = run_at - interval '1 minute' WHERE job_id <> ALL (%s)", known)
    assert [message.job_id for message in publish(example)] == known
    example.engine.start_worker(backend="pool", host="here", pid=1, types=[("monthly_report", 1)])
    assert publish(example, window=8) == []
    newer = [("batch_invoicing", 2), ("monthly_report", 1)]
    example.engine.start_worker(backend="rabbitmq", host="here", pid=1, types=newer)
    assert len(publish(example, window=8)) == 5


def test_published_unknown_jobs_take_no_room_in_the_window(example: ExampleInstallation) -> None:
    """After a release was taken back; the same holds for jobs paused since."""
    old = put(example, 8)
    assert [message.job_id for message in publish(example, window=8)] == old
    example.rows("UPDATE turno.tickets SET version = 2 WHERE job_id = ANY (%s)", old[:4])
    example.rows("UPDATE turno.tickets SET type = 'taxpayer_sync' WHERE job_id = ANY (%s)", old[4:])
    new = put(example, 8)
    assert [message.job_id for message in publish(example, window=8)] == new


def test_type_of_consumer_without_messages_is_not_published(example: ExampleInstallation) -> None:
    put(example, 1)
    example.rows("UPDATE turno.workers SET queues = '{default}'")
    assert publish(example) == []


class Broker:
    """First in, first out; a relay that fills it and a consumer that takes from it."""

    def __init__(self, example: ExampleInstallation) -> None:
        self.types = TYPES
        self._example = example
        self._worker = a_worker(example)
        example.engine.execute("SELECT setseed(0.5)")  # which turns are the oldest's is the same each time
        self._queue: deque[Message] = deque()

    def relay(self) -> None:
        self._queue.extend(publish(self._example))

    def consume(self) -> Claim | None:
        """Claim by the next message that brings something, as a free child would."""
        while self._queue:
            message = self._queue.popleft()
            if claim := claim_message(self._example.engine, self._worker, message, types=self.types):
                return claim
        return None


@pytest.fixture
def fifo(example: ExampleInstallation) -> Broker:
    return Broker(example)


def test_urgent_jobs_gain_nothing_over_another_tenant(example: ExampleInstallation, fifo: Broker) -> None:
    put(example, 40, priority=Priority.URGENT)
    put(example, 40, priority=Priority.LOW)
    put(example, 40, other=True, priority=Priority.LOW)
    turns = []
    for _ in range(60):
        fifo.relay()
        claim = fifo.consume()
        assert claim is not None
        turns.append(claim.login.slug)
    assert 26 <= turns.count("suc0001") <= 34


def test_a_tenant_s_urgent_job_takes_the_next_of_its_turns(example: ExampleInstallation, fifo: Broker) -> None:
    bulk = put(example, 20)
    fifo.relay()
    (urgent,) = put(example, 1, priority=Priority.URGENT)
    (others,) = put(example, 1, other=True, priority=Priority.URGENT)
    first = [fifo.consume() for _ in range(4)]  # the broker has only the earlier messages
    taken = [claim.job_id for claim in first if claim]
    assert others not in taken
    assert urgent in taken
    fifo.relay()
    while (claim := fifo.consume()) is not None:
        taken.append(claim.job_id)
        fifo.relay()
    assert sorted(taken) == sorted([*bulk, urgent, others])
    assert len(set(taken)) == len(taken)


def test_low_jobs_do_not_starve_behind_urgent_ones(example: ExampleInstallation, fifo: Broker) -> None:
    low = set(put(example, 3, priority=Priority.LOW))
    fifo.relay()
    for _ in range(100):
        put(example, 2, priority=Priority.URGENT)
        fifo.relay()
        claim = fifo.consume()
        if claim and claim.job_id in low:
            return
    pytest.fail("no low job was taken in 100 turns")


def test_a_better_job_of_an_unknown_type_takes_no_turn(example: ExampleInstallation, fifo: Broker) -> None:
    (job_id,) = put(example, 1)
    fifo.relay()
    put(example, 1, priority=Priority.URGENT)
    example.rows("UPDATE turno.tickets SET type = 'monthly_report' WHERE priority = 0")
    claim = fifo.consume()
    assert claim is not None
    assert claim.job_id == job_id


def test_unusable_turn_goes_to_a_runnable_job(example: ExampleInstallation, fifo: Broker) -> None:
    """As beside a newer release with jobs that fill the window."""
    newer = put(example, 4)
    fifo.relay()
    example.rows("UPDATE turno.tickets SET version = 2")
    (known,) = put(example, 1, priority=Priority.LOW)
    claim = fifo.consume()
    assert claim is not None
    assert claim.job_id == known
    assert [(example.ticket(job_id) or {})["published_at"] is None for job_id in newer] == [True, False, False, False]


def test_paused_type_hides_no_job_in_its_band(example: ExampleInstallation, fifo: Broker) -> None:
    fifo.types = [*TYPES, ("taxpayer_sync", 1)]
    put(example, 2)
    fifo.relay()
    put(example, 1, priority=Priority.URGENT)
    example.rows("UPDATE turno.tickets SET type = 'taxpayer_sync', run_at = run_at - interval '1 h' WHERE priority = 0")
    example.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('taxpayer_sync', now())")
    (urgent,) = put(example, 1, priority=Priority.URGENT)
    claim = fifo.consume()
    assert claim is not None
    assert claim.job_id == urgent


def test_unclaimable_job_is_not_published(example: ExampleInstallation) -> None:
    put(example, 5)
    put(example, 5, other=True)
    example.rows("UPDATE turno.tenants SET cap = 2 WHERE slug = 'suc0001'")
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0002'")
    sent = publish(example)
    assert Counter(message.schema for message in sent) == {example.one.schema: 2}
    worker = a_worker(example)
    assert all(claim_message(example.engine, worker, message, types=TYPES) for message in sent)
    assert publish(example) == []
    example.rows("UPDATE turno.tenants SET cap = NULL, paused_at = NULL")
    example.rows("INSERT INTO turno.job_types (type, cap) VALUES ('batch_invoicing', 2)")
    assert publish(example) == []
    example.rows("UPDATE turno.job_types SET cap = NULL")
    assert len(publish(example)) == 7


def test_a_mark_that_comes_late_touches_no_later_attempt(example: ExampleInstallation) -> None:
    (job_id,) = put(example, 1)
    (message,) = unpublished(example.engine, 4, 100)
    worker = a_worker(example)
    assert claim_message(example.engine, worker, message, types=TYPES)
    mark_published(example.engine, [message])
    assert (example.ticket(job_id) or {})["published_at"] is None
    example.rows("UPDATE turno.tickets SET state = 'ready', worker_id = NULL, token = NULL")
    mark_published(example.engine, [message])
    assert (example.ticket(job_id) or {})["published_at"] is None
    mark_published(example.engine, [Message(job_id, message.schema, 1)])
    assert (example.ticket(job_id) or {})["published_at"] is not None


def test_untaken_message_is_published_again(example: ExampleInstallation) -> None:
    put(example, 2)
    publish(example)
    example.rows("UPDATE turno.tickets SET published_at = now() - interval '16 s'")
    assert unpublish(example.engine, timedelta(seconds=17)) == 0
    assert unpublish(example.engine, timedelta(seconds=15)) == 2
    assert len(publish(example)) == 2
    example.rows("UPDATE turno.tickets SET published_at = now() + interval '10 minutes'")  # the clock was set back
    assert unpublish(example.engine, timedelta(seconds=15)) == 2


def test_a_message_is_believed_only_as_far_as_the_ticket_agrees(example: ExampleInstallation) -> None:
    (job_id,) = put(example, 1)
    worker = a_worker(example)
    assert claim_message(example.engine, worker, Message(job_id, example.other.schema, 0), types=TYPES) is None
    right = Message(job_id, example.one.schema, 0)
    assert claim_message(example.engine, worker, right, types=[("something_else", 1)]) is None
    claim = claim_message(example.engine, worker, right, types=TYPES)
    assert claim is not None
    assert claim.attempt == 1
    assert claim_message(example.engine, worker, right, types=TYPES) is None


def test_lease_is_renewed_and_taken_over_when_free(example: ExampleInstallation) -> None:
    assert example.engine.take_lease("relay", "a", TIME, renew=True)
    assert example.engine.take_lease("relay", "a", TIME, renew=True)
    assert not example.engine.take_lease("relay", "b", TIME, renew=True)
    assert not example.engine.take_lease("relay", "b", timedelta(0), renew=True)
    assert not example.engine.take_lease("relay", "b", TIME, renew=True)
    assert example.engine.take_lease("relay", "a", timedelta(0), renew=True)
    assert example.engine.take_lease("relay", "b", TIME, renew=True)
    example.rows("UPDATE turno.leases SET until = now() - interval '1 s'")
    assert example.engine.take_lease("relay", "a", TIME, renew=True)
