"""A claim's token is the only pass: whoever lost it writes nothing, whatever it tries."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from app.errors import ClaimLost, HandlerMisuse
from app.jobs.claim import Claim
from app.store import attempts, recovery, tickets
from app.work.session import HandlerConnection
from tenants.session import handler_session
from tests.world import World

Write = Callable[[HandlerConnection, Claim], Any]

WRITES: dict[str, Write] = {
    "start": lambda session, claim: attempts.start(session, claim, "test"),
    "progress": lambda session, claim: attempts.progress(session, claim, 1, 2, None),
    "items": lambda session, claim: attempts.items(session, claim, [{"key": "1", "state": "done"}], 1),
    "checkpoint": lambda session, claim: attempts.checkpoint(session, claim, {}),
    "complete": lambda session, claim: attempts.complete(session, claim, "{}"),
    "fail": lambda session, claim: attempts.fail(session, claim, "no", {}, timedelta(0)),
    "fail for good": lambda session, claim: attempts.fail(session, claim, "no", {}, None),
    "release": lambda session, claim: attempts.release(session, claim, "released", "no", datetime.now(UTC)),
    "abandon": lambda session, claim: attempts.abandon(session, claim, "no"),
}


class Hands:
    """Claims jobs and opens handler sessions, closed after the test."""

    def __init__(self, world: World, stack: ExitStack) -> None:
        self._world = world
        self._stack = stack
        self.worker = tickets.start_worker(world.engine, backend="exec", host="test", pid=1)

    def claim(self, **options: Any) -> Claim:
        job_id = self._world.enqueue({"order_ids": [1]}, **options)
        return self.claim_again(job_id)

    def claim_again(self, job_id: Any) -> Claim:
        claim = tickets.claim_job(self._world.engine, self.worker, job_id, types=[("batch_invoicing", 1)])
        assert claim is not None
        return claim

    def session(self, claim: Claim) -> HandlerConnection:
        session = handler_session(self._world.logins, claim.login, application="test", kind=HandlerConnection)
        self._stack.callback(psycopg.Connection.close, session)
        return session

    def rescue(self, claim: Claim) -> str:
        return recovery.rescue(
            self._world.engine, claim.login.schema, claim.job_id, claim.token, cause="test", retry_in=timedelta(0)
        )


@pytest.fixture
def hands(world: World) -> Iterator[Hands]:
    with ExitStack() as stack:
        yield Hands(world, stack)


def snapshot(world: World, claim: Claim) -> tuple[Any, ...]:
    return (
        world.job(claim.job_id),
        world.ticket(claim.job_id),
        world.rows("SELECT * FROM background_job_attempts ORDER BY attempt"),
        world.rows("SELECT * FROM background_job_items"),
        world.rows("SELECT * FROM background_job_progress"),
        world.rows("SELECT * FROM background_job_checkpoints"),
        world.rows("SELECT * FROM notifications"),
    )


@pytest.mark.parametrize("name", WRITES)
def test_a_zombie_writes_nothing_while_another_attempt_runs(world: World, hands: Hands, name: str) -> None:
    old = hands.claim()
    attempts.start(hands.session(old), old, "old")
    assert hands.rescue(old) == "pending"
    new = hands.claim_again(old.job_id)
    attempts.start(hands.session(new), new, "new")
    before = snapshot(world, new)
    zombie = hands.session(old)
    attempts.begin(zombie, old)
    with pytest.raises(ClaimLost):
        WRITES[name](zombie, old)
    psycopg.Connection.rollback(zombie)
    assert snapshot(world, new) == before


@pytest.mark.parametrize("name", WRITES)
def test_an_attempt_writes_nothing_after_its_job_ended(world: World, hands: Hands, name: str) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempts.start(session, claim, "test")
    attempts.begin(session, claim)
    attempts.complete(session, claim, "{}")
    psycopg.Connection.commit(session)
    before = snapshot(world, claim)
    attempts.begin(session, claim)
    with pytest.raises(ClaimLost):
        WRITES[name](session, claim)
    psycopg.Connection.rollback(session)
    assert snapshot(world, claim) == before


@pytest.mark.parametrize("name", ["items", "checkpoint", "complete"])
def test_work_outside_the_job_s_transaction_is_refused_by_name(world: World, hands: Hands, name: str) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempts.start(session, claim, "test")
    before = snapshot(world, claim)
    with pytest.raises(HandlerMisuse, match="ended the job's transaction itself"):
        WRITES[name](session, claim)
    assert snapshot(world, claim) == before


def test_a_rescue_ends_the_old_backend_and_frees_its_locks(world: World, hands: Hands) -> None:
    old = hands.claim()
    session = hands.session(old)
    attempts.start(session, old, "old")
    attempts.begin(session, old)
    attempts.items(session, old, [{"key": "1", "state": "done"}], 1)  # holds the ticket's lock
    assert hands.rescue(old) == "pending"
    with pytest.raises(psycopg.OperationalError):
        psycopg.Connection.commit(session)
    assert world.rows("SELECT 1 FROM background_job_items") == []


def test_a_second_rescue_with_the_same_token_does_nothing(world: World, hands: Hands) -> None:
    claim = hands.claim()
    attempts.start(hands.session(claim), claim, "test")
    assert hands.rescue(claim) == "pending"
    assert hands.rescue(claim) == "gone"
    assert world.job(claim.job_id)["crashes"] == 1


def test_a_claim_that_never_started_goes_back_uncounted(world: World, hands: Hands) -> None:
    claim = hands.claim()
    assert hands.rescue(claim) == "pending"
    job = world.job(claim.job_id)
    assert (job["status"], job["crashes"], job["attempt"]) == ("pending", 0, 0)


def test_a_buried_worker_claims_nothing(world: World, hands: Hands) -> None:
    job_id = world.enqueue({"order_ids": [1]})
    tickets.bury_workers(world.engine, timedelta(0), dry_run=False)
    assert tickets.claim_job(world.engine, hands.worker, job_id, types=[("batch_invoicing", 1)]) is None
    assert (
        tickets.claim(
            world.engine, hands.worker, queues=["default"], types=[("batch_invoicing", 1)], backend="exec", slots=5
        )
        == []
    )
    assert tickets.keep_alive(world.engine, hands.worker) is False


def test_every_claim_has_a_fresh_token_and_a_higher_attempt(hands: Hands) -> None:
    claims = [hands.claim()]
    for _ in range(3):
        attempts.start(hands.session(claims[-1]), claims[-1], "test")
        attempts.release(hands.session(claims[-1]), claims[-1], "released", "again", datetime(2000, 1, 1, tzinfo=UTC))
        claims.append(hands.claim_again(claims[0].job_id))
    assert [claim.attempt for claim in claims] == [1, 2, 3, 4]
    assert len({claim.token for claim in claims}) == 4
