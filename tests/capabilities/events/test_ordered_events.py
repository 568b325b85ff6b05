"""An ordered subscriber has the events of a key one after another, whether their jobs complete or fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

import turno
from tests.event_handlers import REGISTRY, REGISTRY_PATH
from tests.installation import ExampleInstallation
from turno.capabilities.events import stored
from turno.capabilities.events.stored import Page, Replay
from turno.jobs.job import Claim
from turno.store.engine.announcements import of
from turno.tenancy.identity.session import as_api
from turno.testing.in_process_worker import InProcessWorker
from turno.testing.invariants import judge_of

STARTS = """
SELECT j.payload ->> 'number' AS number FROM background_job_attempts a JOIN background_jobs j ON j.id = a.job_id
WHERE j.type = %s ORDER BY a.started_at
"""


@pytest.fixture(autouse=True)
def subscribed(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TURNO_HANDLERS", REGISTRY_PATH)
    example.registry, example.backend = REGISTRY_PATH, "exec"
    example.engine.announce(of(REGISTRY), 20)
    yield
    with judge_of(example.url, example.one) as judge:
        assert judge.broken() == []
    example.rows("DELETE FROM turno.subscriptions")


@pytest.fixture
def business(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(example.url) as session:
        yield session
        session.rollback()


@pytest.fixture
def worker(example: ExampleInstallation) -> InProcessWorker:
    return InProcessWorker(example, REGISTRY)


def move(session: psycopg.Connection[Any], number: int, how: str = "", key: str | None = "article-3") -> None:
    turno.publish(session, "suc0001", "stock.moved", number=number, how=how, key=key)
    session.commit()


def starts(example: ExampleInstallation, job_type: str = "stock") -> str:
    return "".join(row["number"] for row in example.rows(STARTS, job_type))


def job_of(example: ExampleInstallation, number: int) -> UUID:
    query = "SELECT id FROM background_jobs WHERE type = 'stock' AND payload ->> 'number' = %s ORDER BY id DESC LIMIT 1"
    (row,) = example.rows(query, str(number))
    job_id: UUID = row["id"]
    return job_id


def replay(example: ExampleInstallation, *, missing: bool = False) -> int:
    now = datetime.now(UTC)
    wanted = Replay("stock", None, now - timedelta(hours=1), now + timedelta(hours=1), missing)
    with as_api(example.web, example.one) as reader:
        return stored.replay(reader, wanted, Page(None, 500), backend="exec", dry_run=False)[0]


def lacks(example: ExampleInstallation, number: int) -> str | None:
    (row,) = example.rows("SELECT job_lacks(%s) AS lacks", job_of(example, number))
    lacks: str | None = row["lacks"]
    return lacks


def test_a_job_that_is_tried_again_is_not_overtaken(
    example: ExampleInstallation, business: psycopg.Connection[Any], worker: InProcessWorker
) -> None:
    for number, how in enumerate(("error", "", "later", "", "skip", ""), start=1):
        move(business, number, how)
    move(business, 7, key="article-4")
    move(business, 8, key=None)
    worker.drain()
    # The second key's, the unordered, and the second subscriber's jobs continue; of this key none does.
    assert sorted(starts(example)) == ["1", "7", "8"]
    assert lacks(example, 2) == "order"
    example.make_due()
    worker.drain()
    assert starts(example)[-3:] == "123"
    example.make_due()
    worker.drain()
    assert starts(example)[-4:] == "3456"
    assert {row["status"] for row in example.rows("SELECT status FROM background_jobs")} == {"completed", "cancelled"}


def _retried(example: ExampleInstallation) -> str:
    example.rows("SELECT job_retry(%s, NULL, 'exec', NULL, NULL, NULL)", job_of(example, 1))
    return "112"  # it fails again, and again they wait


def _discarded(example: ExampleInstallation) -> str:
    example.rows("SELECT job_discard(%s, 'ana')", job_of(example, 1))
    return "12"


def _replayed(example: ExampleInstallation) -> str:
    example.rows('UPDATE background_events SET data = data || \'{"how": ""}\'')
    assert replay(example) == 3
    return "112233"


@pytest.mark.parametrize("settle", [_retried, _discarded, _replayed])
def test_order_waits_for_a_failed_job_until_decided(
    example: ExampleInstallation,
    business: psycopg.Connection[Any],
    worker: InProcessWorker,
    settle: Callable[[ExampleInstallation], str],
) -> None:
    for number, how in enumerate(("never", "", ""), start=1):
        move(business, number, how)
    worker.drain()
    assert (starts(example), starts(example, "stock_board"), lacks(example, 2)) == ("1", "123", "dead letter")
    with judge_of(example.url, example.one) as judge:
        assert judge.unsettled() == []  # they wait for a person
    expected = settle(example)
    worker.drain()
    if settle is _retried:
        assert starts(example) == "11"
        example.rows("SELECT job_discard(%s, 'ana')", job_of(example, 1))
        worker.drain()
    assert starts(example) == (expected if settle is _replayed else f"{expected}3")


def _crashed(example: ExampleInstallation, claim: Claim) -> None:
    schema = claim.login.schema
    example.engine.rescue(schema, claim.job_id, claim.token, cause="killed", retry_in=timedelta(0), counted=True)


def _put_off(example: ExampleInstallation, claim: Claim) -> None:
    example.engine.unclaim(claim.job_id, claim.token, timedelta(seconds=20))


def _rescheduled(example: ExampleInstallation, claim: Claim) -> None:
    example.engine.unclaim(claim.job_id, claim.token, timedelta(0))
    example.rows("SELECT job_reorder(%s, 2::smallint, %s)", claim.job_id, datetime.now(UTC) + timedelta(hours=1))


def _repaired(example: ExampleInstallation, claim: Claim) -> None:
    _rescheduled(example, claim)
    example.rows("DELETE FROM turno.tickets")
    assert example.engine.repair(example.one.schema, "exec") > 0


@pytest.mark.parametrize("end", [_crashed, _put_off, _rescheduled, _repaired])
def test_removed_first_event_lets_no_later_one_pass(
    example: ExampleInstallation,
    business: psycopg.Connection[Any],
    worker: InProcessWorker,
    end: Callable[[ExampleInstallation, Claim], None],
) -> None:
    move(business, 1)
    move(business, 2)
    example.engine.promote(10)
    claim = worker.claim(job_of(example, 1))
    assert claim is not None
    end(example, claim)
    example.engine.promote(10)
    assert worker.claim(job_of(example, 2)) is None
    example.make_due()
    worker.drain()
    assert starts(example)[-2:] == "12"


def test_a_cancelled_one_is_left_out(
    example: ExampleInstallation, business: psycopg.Connection[Any], worker: InProcessWorker
) -> None:
    move(business, 1, "error")
    move(business, 2)
    worker.drain()
    example.cancel(job_of(example, 1))
    worker.drain()
    assert starts(example) == "12"


def test_order_is_that_of_publication_despite_the_clock(
    example: ExampleInstallation, business: psycopg.Connection[Any], worker: InProcessWorker
) -> None:
    for number in range(4):
        move(business, number)
    # As if the clock had been set back between them.
    example.rows("UPDATE turno.tickets SET run_at = now() - key_position * interval '1 minute'")
    example.rows("UPDATE background_jobs j SET run_at = t.run_at FROM turno.tickets t WHERE t.job_id = j.id")
    worker.drain()
    assert starts(example) == "0123"


def test_event_committed_late_runs_as_soon_as_possible(
    example: ExampleInstallation, business: psycopg.Connection[Any], worker: InProcessWorker
) -> None:
    turno.publish(business, "suc0001", "stock.moved", number=1, key="article-3")
    with psycopg.connect(example.url) as other:
        for number in (2, 3):
            move(other, number)
    example.engine.promote(10)
    two = worker.claim(job_of(example, 2))
    assert two is not None
    business.commit()
    example.engine.promote(10)
    assert worker.claim(job_of(example, 1)) is None  # the second is at work
    worker.execute(two)
    worker.drain()
    assert starts(example) == "213"


def test_replayed_earlier_events_run_before_later_ones(
    example: ExampleInstallation, business: psycopg.Connection[Any], worker: InProcessWorker
) -> None:
    example.rows("DELETE FROM turno.subscriptions")
    move(business, 1)
    move(business, 2)
    example.engine.announce(of(REGISTRY), 20)
    move(business, 3)
    assert replay(example, missing=True) == 2
    worker.drain()
    assert (starts(example), starts(example, "stock_board")) == ("123", "3")
