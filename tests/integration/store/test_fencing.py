"""A claim's token is the only pass: without it, every write of a lost attempt is refused."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests import attempt_steps, claiming
from tests.installation import ExampleInstallation
from turno.errors import ClaimLost, HandlerMisuse
from turno.jobs.job import Claim
from turno.runner.session import HandlerConnection
from turno.store.engine.engine import Engine
from turno.store.handler import attempts
from turno.tenancy.identity.session import handler_session, service_session

Write = Callable[[HandlerConnection, Claim], Any]

WRITES: dict[str, Write] = {
    "start": lambda session, claim: attempt_steps.start(session, claim, "test"),
    "progress": lambda session, claim: attempts.progress(session, claim, 1, 2, None),
    "items": lambda session, claim: attempts.items(session, claim, [{"key": "1", "state": "done"}], 1),
    "checkpoint": lambda session, claim: attempts.checkpoint(session, claim, {}),
    "complete": lambda session, claim: attempt_steps.complete(session, claim, "{}"),
    "fail": lambda session, claim: attempt_steps.fail(session, claim, "no", {}, timedelta(0)),
    "fail for good": lambda session, claim: attempt_steps.fail(session, claim, "no", {}, None),
    "release": lambda session, claim: attempt_steps.release(session, claim, "released", "no", datetime.now(UTC)),
    "cancel": lambda session, claim: attempt_steps.cancel(session, claim, "no"),
}


class Hands:
    """Claims jobs and opens handler sessions, closed after the test."""

    def __init__(self, example: ExampleInstallation, stack: ExitStack) -> None:
        self._example = example
        self._stack = stack
        self.worker = example.engine.start_worker(backend="exec", host="test", pid=1)

    def claim(self, **options: Any) -> Claim:
        job_id = self._example.enqueue({"order_ids": [1]}, **options)
        return self.claim_again(job_id)

    def claim_again(self, job_id: Any) -> Claim:
        claim = self._example.engine.claim_job(self.worker, job_id, types=[("batch_invoicing", 1)])
        assert claim is not None
        return claim

    def claim_next(self) -> list[Claim]:
        return claiming.claim(
            self._example.engine, self.worker, queues=["cold"], types=[("batch_invoicing", 1)], backend="exec", slots=1
        )

    def session(self, claim: Claim, application: str = "test") -> HandlerConnection:
        session = handler_session(self._example.logins, claim.login, application=application, kind=HandlerConnection)
        self._stack.callback(psycopg.Connection.close, session)
        return session

    def rescue(self, claim: Claim, *, counted: bool | None = True, child: int | None = None) -> str:
        return self._example.engine.rescue(
            claim.login.schema,
            claim.job_id,
            claim.token,
            cause="test",
            retry_in=timedelta(0),
            counted=counted,
            child=child,
        )

    def show(self, claim: Claim, backend: int = 0) -> bool:
        return self._example.engine.show_running(
            claim.login.schema,
            claim.job_id,
            claim.token,
            worker="test",
            backend=backend,
            since=timedelta(seconds=1),
        )


@pytest.fixture
def hands(example: ExampleInstallation) -> Iterator[Hands]:
    with ExitStack() as stack:
        yield Hands(example, stack)


def snapshot(example: ExampleInstallation, claim: Claim) -> tuple[Any, ...]:
    return (
        example.job(claim.job_id),
        example.ticket(claim.job_id),
        example.rows("SELECT * FROM background_job_attempts ORDER BY attempt"),
        example.rows("SELECT * FROM background_job_items"),
        example.rows("SELECT * FROM background_job_progress"),
        example.rows("SELECT * FROM background_job_checkpoints"),
        example.rows("SELECT * FROM notifications"),
    )


@pytest.mark.parametrize("name", WRITES)
def test_a_zombie_writes_nothing_while_another_attempt_runs(
    example: ExampleInstallation, hands: Hands, name: str
) -> None:
    old = hands.claim()
    attempt_steps.start(hands.session(old), old, "old")
    assert hands.rescue(old) == "pending"
    new = hands.claim_again(old.job_id)
    attempt_steps.start(hands.session(new), new, "new")
    before = snapshot(example, new)
    zombie = hands.session(old)
    attempt_steps.begin(zombie)
    with pytest.raises(ClaimLost):
        WRITES[name](zombie, old)
    psycopg.Connection.rollback(zombie)
    assert snapshot(example, new) == before


def test_a_zombie_does_not_start_a_job_that_another_has_claimed(example: ExampleInstallation, hands: Hands) -> None:
    old = hands.claim()
    assert hands.rescue(old, counted=False) == "pending"
    new = hands.claim_again(old.job_id)
    before = snapshot(example, new)
    with pytest.raises(ClaimLost):
        attempt_steps.start(hands.session(old), old, "old")
    assert snapshot(example, new) == before


def test_lost_claim_does_not_start_to_fail(example: ExampleInstallation, hands: Hands) -> None:
    """Before any end but completion an attempt is shown as running; its session may have lost it since."""
    old = hands.claim()
    assert hands.rescue(old, counted=False) == "pending"
    hands.claim_again(old.job_id)
    before = snapshot(example, old)
    with pytest.raises(ClaimLost):
        attempts.start(hands.session(old), old, "old", datetime.now(UTC))
    assert snapshot(example, old) == before


def test_a_job_is_shown_as_running_once(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempt_steps.start(session, claim, "test")
    before = snapshot(example, claim)
    attempt_steps.start(session, claim, "again")
    assert snapshot(example, claim) == before


@pytest.mark.parametrize("name", sorted(WRITES.keys() - {"progress"}))
def test_token_serves_only_its_session(example: ExampleInstallation, hands: Hands, name: str) -> None:
    """Such as that of an attacker in the same tenant, while the session of the attempt is there."""
    claim = hands.claim()
    session, thief = hands.session(claim), hands.session(claim)
    assert hands.show(claim, session.info.backend_pid)
    before = snapshot(example, claim)
    attempt_steps.begin(thief)
    thief.execute("SET LOCAL statement_timeout = '300ms'")  # else it waits for the end of the competing session
    with pytest.raises(psycopg.errors.QueryCanceled):
        WRITES[name](thief, claim)
    psycopg.Connection.rollback(thief)
    assert snapshot(example, claim) == before


def test_a_session_takes_over_the_attempt_of_an_ended_one(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    session, later = hands.session(claim), hands.session(claim)
    attempt_steps.start(session, claim, "test")
    psycopg.Connection.close(session)
    attempt_steps.begin(later)
    attempts.items(later, claim, [{"key": "1", "state": "done"}], 1)
    attempt_steps.complete(later, claim, "{}")
    psycopg.Connection.commit(later)
    assert example.job(claim.job_id)["status"] == "completed"
    assert example.rows("SELECT backend_pid FROM background_job_attempts") == [{"backend_pid": later.info.backend_pid}]


def test_lost_claim_is_not_shown_as_running(example: ExampleInstallation, hands: Hands) -> None:
    old = hands.claim()
    assert hands.rescue(old, counted=False) == "pending"
    hands.claim_again(old.job_id)
    before = snapshot(example, old)
    assert not hands.show(old)
    assert snapshot(example, old) == before


def test_ending_job_is_not_shown_as_running(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempt_steps.begin(session)
    attempt_steps.complete(session, claim, "{}")
    assert not hands.show(claim)
    psycopg.Connection.commit(session)
    assert example.job(claim.job_id)["status"] == "completed"
    events = example.rows("SELECT new_status FROM background_job_events ORDER BY id")
    assert [row["new_status"] for row in events] == ["pending", "completed"]


def test_shown_attempt_stays_one_until_its_end(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempt_steps.begin(session)
    assert hands.show(claim, session.info.backend_pid)
    (row,) = example.rows("SELECT backend_pid, finished_at FROM background_job_attempts")
    assert row == {"backend_pid": session.info.backend_pid, "finished_at": None}
    assert example.job(claim.job_id)["status"] == "running"
    attempt_steps.complete(session, claim, "{}")
    psycopg.Connection.commit(session)
    (row,) = example.rows("SELECT outcome, finished_at > started_at AS later FROM background_job_attempts")
    assert row == {"outcome": "completed", "later": True}


def test_end_of_a_brief_job_is_one_revision(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    before = example.job(claim.job_id)["revision"]
    session = hands.session(claim)
    attempt_steps.begin(session)
    attempt_steps.complete(session, claim, "{}")
    psycopg.Connection.commit(session)
    assert example.job(claim.job_id)["revision"] == before + 1
    assert example.rows("SELECT FROM background_job_event_rows") == []


@pytest.mark.parametrize("name", WRITES)
def test_an_attempt_writes_nothing_after_its_job_ended(example: ExampleInstallation, hands: Hands, name: str) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempt_steps.start(session, claim, "test")
    attempt_steps.begin(session)
    attempt_steps.complete(session, claim, "{}")
    psycopg.Connection.commit(session)
    before = snapshot(example, claim)
    attempt_steps.begin(session)
    with pytest.raises(ClaimLost):
        WRITES[name](session, claim)
    psycopg.Connection.rollback(session)
    assert snapshot(example, claim) == before


def test_work_outside_the_job_s_transaction_is_refused_by_name(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempt_steps.start(session, claim, "test")
    before = snapshot(example, claim)
    with pytest.raises(HandlerMisuse, match="ended the job's transaction itself"):
        WRITES["complete"](session, claim)
    assert snapshot(example, claim) == before


def test_a_rescue_ends_the_old_backend_and_frees_its_locks(example: ExampleInstallation, hands: Hands) -> None:
    old = hands.claim()
    session = hands.session(old)
    attempt_steps.start(session, old, "old")
    attempt_steps.begin(session)
    attempts.items(session, old, [{"key": "1", "state": "done"}], 1)  # holds the ticket's lock
    assert hands.rescue(old) == "pending"
    with pytest.raises(psycopg.OperationalError):
        psycopg.Connection.commit(session)
    assert example.rows("SELECT 1 FROM background_job_items") == []


def test_a_second_rescue_with_the_same_token_does_nothing(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    attempt_steps.start(hands.session(claim), claim, "test")
    assert hands.rescue(claim) == "pending"
    assert hands.rescue(claim) == "gone"
    assert example.job(claim.job_id)["crashes"] == 1


def test_a_late_rescue_harms_no_later_attempt(example: ExampleInstallation, hands: Hands) -> None:
    old = hands.claim()
    attempt_steps.start(hands.session(old), old, "old")
    assert hands.rescue(old) == "pending"
    new = hands.claim_again(old.job_id)
    session = hands.session(new)
    attempt_steps.start(session, new, "new")
    # As if the first rescue had died before it closed the old attempt; the new attempt has its backend's place.
    example.rows("UPDATE background_job_attempt_rows SET finished_at = NULL, outcome = NULL WHERE attempt = 1")
    before = snapshot(example, new)
    assert hands.rescue(old) == "gone"
    assert snapshot(example, new) == before
    assert session.execute("SELECT 1").fetchone() == (1,)


def test_rescue_ends_no_stranger_with_a_reused_pid(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempt_steps.start(session, claim, "test")
    example.rows("UPDATE background_job_attempt_rows SET backend_start = backend_start - interval '1 s'")
    assert hands.rescue(claim) == "pending"
    assert session.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("renewed", [True, False])
def test_a_rescue_waits_for_a_session_that_it_cannot_end(
    example: ExampleInstallation, hands: Hands, *, renewed: bool
) -> None:
    """The commit that names the new session of an attempt is still open.

    For a moment only: the rescuer has other tenants to serve.
    """
    claim = hands.claim()
    first = hands.session(claim)
    attempt_steps.start(first, claim, "test")
    example.rows("UPDATE background_job_attempt_rows SET backend_start = 'epoch'")  # as of a session that has ended
    session = hands.session(claim) if renewed else first
    attempt_steps.begin(session)
    attempts.items(session, claim, [{"key": "1", "state": "done"}], 1)
    with example.engine.transaction(force_rollback=True):
        example.engine.execute("SET LOCAL statement_timeout = '2s'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            hands.rescue(claim)
    psycopg.Connection.commit(session)
    assert hands.rescue(claim) == "pending"
    assert len(example.rows("SELECT 1 FROM background_job_items")) == 1


def test_the_third_crash_is_the_last(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    for crash in (1, 2, 3):
        attempt_steps.start(hands.session(claim), claim, "test")
        assert hands.rescue(claim) == ("failed" if crash == 3 else "pending")
        assert example.job(claim.job_id)["crashes"] == crash
        if crash < 3:
            claim = hands.claim_again(claim.job_id)
    (letter,) = example.rows("SELECT cause, attempts FROM background_jobs_dead_letter")
    assert (letter["cause"], len(letter["attempts"])) == ("test", 3)


def test_a_job_taken_back_without_blame_is_never_worn_out(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    for _ in range(5):
        attempt_steps.start(hands.session(claim), claim, "test")
        assert hands.rescue(claim, counted=False) == "pending"
        claim = hands.claim_again(claim.job_id)
    job = example.job(claim.job_id)
    assert (job["crashes"], job["errors"], job["attempt"]) == (0, 0, 5)


def test_a_job_that_has_ended_does_not_end_again(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    end = "SELECT job_end(%s, 'cancelled', 'because', NULL, NULL) AS ended"
    assert example.rows(end, job_id) == [{"ended": True}]
    before = example.job(job_id)
    assert example.rows(end, job_id) == [{"ended": False}]
    assert example.job(job_id) == before
    assert len(example.rows("SELECT 1 FROM notifications")) == 1


def test_an_item_is_entered_into_the_ledger_once(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    session = hands.session(claim)
    attempt_steps.start(session, claim, "test")
    attempt_steps.begin(session)
    attempts.items(session, claim, [{"key": "1", "state": "done"}], 2)
    with pytest.raises(psycopg.errors.UniqueViolation):
        attempts.items(session, claim, [{"key": "1", "state": "done"}], 2)
    psycopg.Connection.rollback(session)
    assert example.rows("SELECT 1 FROM background_job_items") == []


def test_a_death_counts_before_the_job_was_shown_as_running(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    for crash in (1, 2, 3):
        assert hands.rescue(claim, child=1) == ("failed" if crash == 3 else "pending")
        job = example.job(claim.job_id)
        assert (job["crashes"], job["attempt"], job["error"]["class"]) == (crash, crash, "Crash")
        if crash < 3:
            assert example.rows("SELECT crashes, attempt FROM turno.tickets") == [{"crashes": crash, "attempt": crash}]
            claim = hands.claim_again(claim.job_id)
    assert len(example.rows("SELECT 1 FROM background_jobs_dead_letter")) == 1
    history = example.rows(
        "SELECT attempt, outcome, error ->> 'class' AS error FROM background_job_attempts ORDER BY 1"
    )
    assert history == [{"attempt": number, "outcome": "crashed", "error": "Crash"} for number in (1, 2, 3)]


def test_blameless_job_returns_uncounted(example: ExampleInstallation, hands: Hands) -> None:
    claim = hands.claim()
    assert hands.rescue(claim, counted=False, child=1) == "pending"
    job = example.job(claim.job_id)
    assert (job["status"], job["crashes"], job["attempt"]) == ("pending", 0, 0)
    assert example.rows("SELECT crashes FROM turno.tickets") == [{"crashes": 0}]


def test_host_killer_before_its_start_ends_as_dead_letter(example: ExampleInstallation, hands: Hands) -> None:
    """The guilty job of a lost host is unknown: each runs alone next time, and then it is known."""
    claim = hands.claim()
    for death, (status, crashes) in enumerate([("pending", 0), ("pending", 1), ("pending", 2), ("failed", 3)]):
        assert hands.rescue(claim, counted=None) == status
        assert example.job(claim.job_id)["crashes"] == crashes
        if status == "pending":
            assert example.rows("SELECT crashes FROM turno.tickets") == [{"crashes": death + 1}]
            claim = hands.claim_again(claim.job_id)
    assert len(example.rows("SELECT 1 FROM background_jobs_dead_letter")) == 1


@pytest.mark.parametrize(("child", "ended"), [(None, ["1", "2"]), (2, ["2"])], ids=["host", "child"])
def test_dead_worker_backends_are_ended_by_name(
    example: ExampleInstallation, hands: Hands, child: int | None, ended: list[str]
) -> None:
    claim = hands.claim()
    named = {
        "1": hands.session(claim, f"turno-handler {hands.worker} 1"),
        "2": hands.session(claim, f"turno-handler {hands.worker} 2"),
        "another worker's": hands.session(claim, f"turno-handler {claim.token} 2"),
    }
    other = handler_session(
        example.logins, example.handler_login(example.other), application=f"turno-handler {hands.worker} 2",
        kind=HandlerConnection,
    )  # fmt: skip
    attempt_steps.begin(named["2"])
    attempts.items(named["2"], claim, [{"key": "1", "state": "done"}], 1)
    assert hands.rescue(claim, counted=None, child=child) == "pending"
    assert [name for name, session in named.items() if not answers(session)] == ended
    assert answers(other)
    psycopg.Connection.close(other)


def answers(session: HandlerConnection) -> bool:
    try:
        session.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("wait", [0, 30])
def test_unhanded_claim_is_given_back_despite_tenant_locks(
    example: ExampleInstallation, hands: Hands, wait: int
) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    before = example.rows("SELECT * FROM turno.tickets")[0]
    claim = hands.claim_again(job_id)
    with psycopg.connect(example.url) as rival:
        name = sql.Identifier(example.one.schema, "background_jobs")
        rival.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        example.engine.unclaim(job_id, claim.token, timedelta(seconds=wait))
        rival.rollback()
    after = example.rows("SELECT * FROM turno.tickets")[0]
    if wait:
        assert (after["state"], after["run_at"] > before["run_at"]) == ("scheduled", True)
    else:
        assert after == before  # its place among all files included
    assert example.job(job_id)["status"] == "pending"


def test_a_claim_that_another_has_is_not_given_back(example: ExampleInstallation, hands: Hands) -> None:
    old = hands.claim()
    example.engine.unclaim(old.job_id, old.token, timedelta(0))
    new = hands.claim_again(old.job_id)
    before = snapshot(example, new)
    example.engine.unclaim(old.job_id, old.token, timedelta(0))
    assert snapshot(example, new) == before


def test_a_buried_worker_claims_nothing(example: ExampleInstallation, hands: Hands) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.engine.prune_workers(timedelta(0))
    assert example.engine.claim_job(hands.worker, job_id, types=[("batch_invoicing", 1)]) is None
    assert (
        claiming.claim(
            example.engine, hands.worker, queues=["cold"], types=[("batch_invoicing", 1)], backend="exec", slots=5
        )
        == []
    )
    assert example.engine.keep_alive(hands.worker) is None


ROADS: dict[str, Callable[[Hands, Any], Claim]] = {
    "by id": lambda hands, job_id: hands.claim_again(job_id),
    "the next": lambda hands, _: hands.claim_next()[0],
}


@pytest.mark.parametrize("road", ROADS)
def test_every_claim_has_a_fresh_token_and_a_higher_attempt(
    example: ExampleInstallation, hands: Hands, road: str
) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    claims = [ROADS[road](hands, job_id)]
    session = hands.session(claims[0])
    for _ in range(3):
        attempt_steps.start(session, claims[-1], "test")
        attempt_steps.release(session, claims[-1], "released", "again", datetime(2000, 1, 1, tzinfo=UTC))
        claims.append(ROADS[road](hands, job_id))
    assert [claim.attempt for claim in claims] == [1, 2, 3, 4]
    assert len({claim.token for claim in claims}) == 4
    assert (example.job(job_id)["errors"], example.job(job_id)["crashes"]) == (0, 0)


@pytest.mark.parametrize("road", ROADS)
def test_claiming_worker_is_not_buried_and_may_beat(example: ExampleInstallation, hands: Hands, road: str) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    with service_session(example.logins, example.logins.engine, application="test") as cron:
        cron.execute("SET lock_timeout = '100ms'")
        with example.engine.transaction():
            ROADS[road](hands, job_id)
            assert Engine.on(cron).keep_alive(hands.worker) is not None
            with pytest.raises(psycopg.errors.LockNotAvailable):
                Engine.on(cron).prune_workers(timedelta(0))
        assert Engine.on(cron).prune_workers(timedelta(0)) == 1
        assert [orphan.job_id for orphan in Engine.on(cron).orphans()] == [job_id]
