"""Any order of calls about jobs with keys, one of them in a transaction that stays open: the judge finds nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests import attempt_steps, claiming
from tests.installation import ExampleInstallation
from turno.jobs.job import Claim, Priority
from turno.runner.session import HandlerConnection
from turno.tenancy.identity.session import handler_session
from turno.testing.invariants import Judge, judge_of

TYPES = [("batch_invoicing", 1)]
NOW, HOUR = timedelta(0), timedelta(hours=1)
ANY = st.integers(0, 99)
RULES = {"one at a time": (None, None), "two at a time": (2, None), "three an hour": (None, 3), "both": (1, 3)}
EVERY_TIME = ("two at a time", "both")


class KeyMachine(RuleBasedStateMachine):
    """One tenant's jobs under two keys."""

    def __init__(self, example: ExampleInstallation, judge: Judge, sessions: list[HandlerConnection]) -> None:
        super().__init__()
        self.example, self.judge, self.sessions = example, judge, sessions
        example.reset()
        example.rows(
            "INSERT INTO turno.subscriptions (event, type, ordered)"
            " VALUES ('told', 'batch_invoicing', true) ON CONFLICT DO NOTHING"
        )
        self.worker = example.engine.start_worker(backend="exec", host="test", pid=1)
        self.jobs: list[UUID] = []
        self.claims: list[Claim] = []
        self.ending: Claim | None = None  # in a transaction that is open
        self.limited(*RULES["one at a time"])

    def limited(self, limit: int | None, rate: int | None) -> None:
        self.example.rows(
            "UPDATE turno.handlers SET key_limit = %s, key_rate = %s, key_period = 3600 WHERE type = 'batch_invoicing'",
            limit, rate,
        )  # fmt: skip

    @rule(key=st.sampled_from(["a", "a", "b", None]), band=st.sampled_from(Priority), later=st.booleans())
    def enqueue(self, key: str | None, band: Priority, *, later: bool) -> None:
        run_at = datetime.now(UTC) + HOUR if later else None
        work = {"order_ids": [1]}
        self.jobs.append(self.example.enqueue(work, concurrency_key=key, priority=band, run_at=run_at))

    @rule(key=st.sampled_from(["a", "a", "b"]))
    def publish(self, key: str) -> None:
        (event,) = self.example.rows("SELECT * FROM turno.publish('suc0001', 'told', '{\"order_ids\": [1]}', %s)", key)
        (job,) = self.example.rows("SELECT job_id FROM background_event_jobs WHERE event_id = %s", event["event_id"])
        self.jobs.append(job["job_id"])

    @rule()
    def promote(self) -> None:
        self.example.engine.promote(100)

    @rule(slots=st.integers(1, 3))
    def claim(self, slots: int) -> None:
        self.claims += claiming.claim(
            self.example.engine, self.worker, queues=["cold"], types=TYPES, backend="exec", slots=slots
        )

    @precondition(lambda self: self.jobs)
    @rule(which=ANY)
    def claim_by_id(self, which: int) -> None:
        job = self.jobs[which % len(self.jobs)]
        if self.ending is None or job != self.ending.job_id:
            claim = self.example.engine.claim_job(self.worker, job, types=TYPES)
            self.claims += [claim] if claim else []

    @precondition(lambda self: self.claims)
    @rule(which=ANY, how=st.sampled_from(["complete", "again", "later", "failed", "rescued", "back", "put off"]))
    def end(self, which: int, how: str) -> None:
        claim = self.claims.pop(which % len(self.claims))
        session = self.sessions[0]
        match how:
            case "complete":
                attempt_steps.begin(session)
                attempt_steps.complete(session, claim, "{}")
                psycopg.Connection.commit(session)
            case "again" | "later" | "failed":
                attempt_steps.start(session, claim, "test")
                wait = {"again": NOW, "later": HOUR, "failed": None}[how]
                attempt_steps.fail(session, claim, "error", {"class": "Oops"}, wait)
            case "rescued":
                self.example.engine.rescue(claim.login.schema, claim.job_id, claim.token,
                    cause="killed", retry_in=NOW, counted=False,
                )  # fmt: skip
            case _:
                wait = NOW if how == "back" else timedelta(seconds=20)
                self.example.engine.unclaim(claim.job_id, claim.token, wait)

    @precondition(lambda self: self.claims and self.ending is None)
    @rule(which=ANY)
    def begin_an_end(self, which: int) -> None:
        self.ending = self.claims.pop(which % len(self.claims))
        attempt_steps.begin(self.sessions[1])
        attempt_steps.complete(self.sessions[1], self.ending, "{}")

    @precondition(lambda self: self.ending is not None)
    @rule(committed=st.booleans())
    def end_it(self, *, committed: bool) -> None:
        assert self.ending
        if committed:
            psycopg.Connection.commit(self.sessions[1])
        else:
            psycopg.Connection.rollback(self.sessions[1])
            self.claims.append(self.ending)
        self.ending = None

    @precondition(lambda self: self.jobs and self.ending is None)
    @rule(which=ANY)
    def cancel(self, which: int) -> None:
        self.example.cancel(self.jobs[which % len(self.jobs)])

    @precondition(lambda self: self.jobs and self.ending is None)
    @rule(which=ANY, how=st.sampled_from(["job_retry(%s, NULL, 'exec', NULL, NULL, NULL)", "job_discard(%s, 'ana')"]))
    def settle(self, which: int, how: LiteralString) -> None:
        self.example.rows(f"SELECT {how}", self.jobs[which % len(self.jobs)])

    @precondition(lambda self: self.ending is None)
    @rule()
    def time_passes(self) -> None:
        self.example.make_due()
        self.example.rows("UPDATE turno.key_looks SET at = at - interval '1 hour'")

    @precondition(lambda self: self.ending is None)
    @rule()
    def tickets_are_lost_and_repaired(self) -> None:
        self.example.rows("DELETE FROM turno.tickets WHERE state <> 'running'")
        self.example.engine.repair(self.example.one.schema, "exec")

    @invariant()
    def the_judge_finds_nothing(self) -> None:
        assert self.judge.broken(accepted=self.jobs) == []

    def teardown(self) -> None:
        """In the end everything may run and all jobs end: nothing was forgotten."""
        if self.ending is not None:
            self.end_it(committed=True)
        self.limited(*RULES["one at a time"])
        for _ in range(2 * len(self.jobs) + 2):
            self.time_passes()
            self.claim(slots=3)
            while self.claims:
                self.end(0, "complete")
        assert self.judge.unsettled() == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(limits, id=name, marks=() if name in EVERY_TIME else pytest.mark.deep)
        for name, limits in RULES.items()
    ],
)
def test_any_order_of_calls_keeps_the_keys(example: ExampleInstallation, limits: tuple[int | None, int | None]) -> None:
    login = example.handler_login()
    sessions = [handler_session(example.logins, login, application="machine", kind=HandlerConnection) for _ in range(2)]

    with judge_of(example.url, example.one) as judge:

        class OfExample(KeyMachine):
            def __init__(self) -> None:
                super().__init__(example, judge, sessions)
                self.limited(*limits)

        few: Any = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
        bounded = settings(
            max_examples=max(1, settings().max_examples // 20), stateful_step_count=40, deadline=None,
            suppress_health_check=few,
        )  # fmt: skip
        try:
            run_state_machine_as_test(OfExample, settings=bounded)
        finally:
            for session in sessions:
                psycopg.Connection.close(session)
            example.rows("UPDATE turno.handlers SET key_limit = NULL, key_rate = NULL, key_period = NULL")
            example.rows("DELETE FROM turno.subscriptions")
