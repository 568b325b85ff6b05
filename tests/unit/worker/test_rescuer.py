"""A refused rescue waits without delaying other rescues, and no refusal ends the supervisor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.misbehaving_handlers import REGISTRY
from turno.jobs.job import Claim
from turno.runner import exit_codes
from turno.store.engine.engine import Engine
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker import crash_reasons
from turno.worker.child import Unfinished
from turno.worker.rescuer import Rescuer
from turno.worker.running_jobs import ChangeNotifier

LOCKED = psycopg.errors.LockNotAvailable("canceling statement due to lock timeout\nDETAIL: a row's values")


class Database:
    """Refuses the rescues of some claims, and is unavailable on request; records the rescues."""

    def __init__(self) -> None:
        self.now = 0.0
        self.refused: dict[Claim, psycopg.Error] = {}
        self.away: psycopg.Error | None = None
        self.requested: list[Claim] = []
        self.rescued: dict[Claim, dict[str, Any]] = {}
        self.given_back: dict[Claim, float] = {}
        self.claims: dict[Any, Claim] = {}
        self.takes = 0.0  # seconds for each rescue

    def claim(self, tenant: int) -> Claim:
        login = HandlerLogin(slug=f"suc{tenant:04}", schema=f"t_{tenant:012x}", role="r", epoch=0)
        claim = Claim(
            job_id=uuid4(), token=uuid4(), attempt=1, type="faulty", version=1, tenant_id=tenant, login=login
        )  # fmt: skip
        self.claims[claim.token] = claim
        return claim

    def engine(self) -> Engine:
        return Link(self)


class Link(Engine):
    """Answers in the database's place."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            lambda: pytest.fail("nothing is connected"), retry_delay=1, chance=half, clock=lambda: database.now
        )
        self._database = database

    def announce_changes(self, payloads: Sequence[str]) -> None:
        pass

    def unclaim(self, job_id: UUID, token: UUID, wait: timedelta) -> None:
        del job_id
        with self._noted():
            if self._database.away is not None:
                raise self._database.away
        self._database.given_back[self._database.claims[token]] = wait.total_seconds()

    def rescue(self, schema: str, job_id: UUID, token: UUID, **options: Any) -> str:
        del schema, job_id
        with self._noted():
            return self._rescued(token, options)

    def _rescued(self, token: UUID, options: dict[str, Any]) -> str:
        database = self._database
        if database.away is not None:
            raise database.away
        claim = database.claims[token]
        database.requested.append(claim)
        database.now += database.takes
        if claim in database.refused:
            raise database.refused[claim]
        database.rescued[claim] = options
        return "pending"


PID = 4242


def unfinished(claim: Claim) -> Unfinished:
    return Unfinished(PID, (claim,), (), claim)


def half() -> float:
    return 0.5


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def rescuing(database: Database) -> Rescuer:
    engine = database.engine()
    return Rescuer(
        engine=engine,
        registry=REGISTRY,
        change_notifier=ChangeNotifier(engine),
        ready=lambda: None,
        chance=half,
        clock=lambda: database.now,
    )


def killed(rescuing: Rescuer, *claims: Claim) -> None:
    for claim in claims:
        rescuing.child_ended(unfinished(claim), -9, None)


def test_refused_rescue_delays_no_rescue_of_others(database: Database, rescuing: Rescuer) -> None:
    bad, good = database.claim(1), database.claim(2)
    database.refused[bad] = LOCKED
    killed(rescuing, bad, good)
    rescuing.flush()
    assert list(database.rescued) == [good]
    assert rescuing.tokens == {bad.token}
    del database.refused[bad]
    database.now = rescuing.due
    rescuing.flush()
    assert list(database.rescued) == [good, bad]
    assert not rescuing


def test_refused_rescue_is_tried_ever_more_rarely(database: Database, rescuing: Rescuer) -> None:
    bad = database.claim(1)
    database.refused[bad] = LOCKED
    killed(rescuing, bad)
    waits = []
    for _ in range(10):
        rescuing.flush()
        waits.append(rescuing.due - database.now)
        database.now = rescuing.due
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_always_refused_job_delays_its_tenant_for_a_moment(database: Database, rescuing: Rescuer) -> None:
    bad, good = database.claim(1), database.claim(1)
    database.refused[bad] = LOCKED
    killed(rescuing, bad)
    for _ in range(8):
        rescuing.flush()
        database.now = rescuing.due
    database.requested.clear()
    killed(rescuing, good)
    rescuing.flush()
    # The claim without a refusal goes first; the refused claim follows in the same moment, as it is due.
    assert database.requested == [good, bad]
    killed(rescuing, more := database.claim(1))
    rescuing.flush()
    assert database.requested[2:] == [more]


def test_locked_tables_are_tried_once_for_all_jobs(database: Database, rescuing: Rescuer) -> None:
    claims = [database.claim(1) for _ in range(20)]
    database.refused = dict.fromkeys(claims, LOCKED)
    killed(rescuing, *claims)
    rescuing.flush()
    assert len(database.requested) == 1


def test_an_outage_puts_all_off_and_blames_none(database: Database, rescuing: Rescuer) -> None:
    first, second = database.claim(1), database.claim(2)
    killed(rescuing, first, second)
    for away in (psycopg.OperationalError("gone"), psycopg.errors.ReadOnlySqlTransaction("a standby")):
        database.away = away
        rescuing.flush()
        assert rescuing.due == database.now + 1
        database.now = rescuing.due
    database.away = None
    rescuing.flush()
    assert list(database.rescued) == [first, second]


def test_debts_to_a_removed_tenant_are_dropped_and_logged(
    database: Database, rescuing: Rescuer, caplog: pytest.LogCaptureFixture
) -> None:
    bad = database.claim(1)
    database.refused[bad] = psycopg.errors.InvalidSchemaName("no such schema")
    killed(rescuing, bad)
    rescuing.flush()
    assert not rescuing
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("other", [psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable])
def test_debts_to_a_tenant_of_a_newer_release_stay(
    database: Database, rescuing: Rescuer, other: type[psycopg.Error], caplog: pytest.LogCaptureFixture
) -> None:
    bad = database.claim(1)
    database.refused[bad] = other("no such thing")
    killed(rescuing, bad)
    rescuing.flush()
    assert rescuing.tokens == {bad.token}
    assert rescuing.due > database.now
    assert "not taken back yet" in caplog.text


def test_the_values_of_a_row_reach_no_log(
    database: Database, rescuing: Rescuer, caplog: pytest.LogCaptureFixture
) -> None:
    bad = database.claim(1)
    database.refused[bad] = LOCKED
    killed(rescuing, bad)
    rescuing.flush()
    assert "canceling statement due to lock timeout" in caplog.text
    assert "DETAIL" not in caplog.text


def test_many_slow_rescues_leave_time_for_heartbeats(database: Database, rescuing: Rescuer) -> None:
    database.takes = 0.3
    killed(rescuing, *(database.claim(number) for number in range(9)))
    rescuing.flush()
    assert len(database.requested) == 2
    assert rescuing.due <= database.now
    rescuing.flush_all()
    assert not rescuing


@pytest.mark.parametrize(
    ("code", "why", "counted"),
    [
        (-9, None, True),
        (exit_codes.OUT_OF_MEMORY, None, True),
        (exit_codes.BROKEN, None, True),
        (exit_codes.UNRECORDED, None, True),
        (-9, crash_reasons.time_limit(1), True),
        (-9, crash_reasons.WORKER_ENDED, False),
        (-9, crash_reasons.STOPPING, False),
        (-9, crash_reasons.CUT_OFF, False),
        (exit_codes.LOGIN_REFUSED, None, False),
        (exit_codes.DATABASE_AWAY, None, False),
        (exit_codes.DATABASE_BUSY, None, False),
    ],
)
def test_which_ends_of_a_child_are_counted(
    database: Database, rescuing: Rescuer, code: int, why: str | None, *, counted: bool
) -> None:
    claim = database.claim(1)
    rescuing.child_ended(unfinished(claim), code, why)
    rescuing.flush()
    assert (database.rescued[claim]["counted"], database.rescued[claim]["child"]) == (counted, PID)


@pytest.mark.parametrize(("code", "seconds"), [(exit_codes.LOGIN_REFUSED, 30), (exit_codes.DATABASE_BUSY, 5)])
def test_tenant_with_unstartable_jobs_is_skipped_for_a_while(
    database: Database, rescuing: Rescuer, code: int, seconds: int
) -> None:
    first, second, other = database.claim(1), database.claim(1), database.claim(2)
    rescuing.child_ended(unfinished(first), code, None)
    database.now += 1
    theirs, others = (second, later := database.claim(1)), (other,)
    assert rescuing.pass_over([theirs, others]) == [others]
    assert rescuing.claims_at <= database.now
    rescuing.flush()
    assert database.given_back == {second: seconds - 1, later: seconds - 1}
    assert list(database.rescued) == [first]  # without a wait: a refusal of handlers refuses no rescue
    database.now = seconds
    assert rescuing.pass_over([theirs]) == [theirs]


@pytest.mark.parametrize("code", [exit_codes.DATABASE_AWAY, exit_codes.OUT_OF_MEMORY, -9])
def test_tenant_is_not_skipped_for_faults_of_others(database: Database, rescuing: Rescuer, code: int) -> None:
    rescuing.child_ended(unfinished(database.claim(1)), code, None)
    turn = (database.claim(1),)
    assert rescuing.pass_over([turn]) == [turn]


def test_tenant_with_refused_rescue_is_skipped_for_a_moment(database: Database, rescuing: Rescuer) -> None:
    bad = database.claim(1)
    database.refused[bad] = LOCKED
    killed(rescuing, bad)
    for _ in range(9):
        rescuing.flush()
        assert rescuing.pass_over([(claim := database.claim(1),)]) == []
        rescuing.flush()
        assert database.given_back[claim] <= 5
        database.now = rescuing.due
    turn = (database.claim(1),)
    assert rescuing.pass_over([turn]) == [turn]


def test_unhanded_jobs_are_given_back_by_ticket(database: Database, rescuing: Rescuer) -> None:
    claims = [database.claim(1) for _ in range(3)]
    rescuing.not_started((claims[0], claims[1]))
    rescuing.no_process((claims[2],), "no process could be had")
    rescuing.flush()
    assert database.given_back == {claims[0]: 0, claims[1]: 0, claims[2]: 30}
    assert database.rescued == {}


def test_claim_without_reply_is_given_back_by_ticket(database: Database, rescuing: Rescuer) -> None:
    unheard = database.claim(2)
    rescuing.reply_lost(unheard)
    rescuing.flush()
    assert (database.given_back, database.rescued) == ({unheard: 0}, {})


def reply(database: Database) -> dict[Claim, tuple[bool | None, str]]:
    return {claim: (options["counted"], options["cause"]) for claim, options in database.rescued.items()}


def test_batch_rescue_blames_running_job_and_returns_others(database: Database, rescuing: Rescuer) -> None:
    before, blamed, unstarted = (database.claim(1) for _ in range(3))
    assert rescuing.child_ended(Unfinished(PID, (before, blamed), (unstarted,), blamed), -9, None) == (unstarted,)
    rescuing.flush()
    killed_by = crash_reasons.of_end(-9)
    assert list(reply(database).items()) == [(blamed, (True, killed_by)), (before, (False, crash_reasons.ANOTHERS))]


def test_unknown_cause_blames_no_job(database: Database, rescuing: Rescuer) -> None:
    claims = database.claim(1), database.claim(1)
    assert rescuing.child_ended(Unfinished(PID, claims, (), None), -9, None) == ()
    rescuing.flush()
    assert reply(database) == dict.fromkeys(claims, (None, crash_reasons.ANOTHERS))


def test_start_failure_of_one_job_keeps_the_whole_batch(database: Database, rescuing: Rescuer) -> None:
    begun, unstarted = database.claim(1), database.claim(1)
    assert rescuing.child_ended(Unfinished(PID, (begun,), (unstarted,), begun), exit_codes.LOGIN_REFUSED, None) == ()
    rescuing.flush()
    assert {claim: counted for claim, (counted, _) in reply(database).items()} == {begun: False, unstarted: False}


def test_troubled_tenant_with_many_jobs_is_left_for_a_moment(database: Database, rescuing: Rescuer) -> None:
    rescuing.child_ended(unfinished(database.claim(1)), exit_codes.LOGIN_REFUSED, None)
    theirs, others = ((database.claim(tenant),) for tenant in (1, 2))
    database.now += 1
    for _ in range(100):
        rescuing.pass_over([theirs])
        rescuing.pass_over([others])
    assert rescuing.claims_at < database.now  # others' jobs are claimed as fast as ever
    for _ in range(15):
        rescuing.pass_over([theirs])
    assert rescuing.claims_at < database.now
    rescuing.pass_over([theirs])
    assert rescuing.claims_at == database.now + 0.25
