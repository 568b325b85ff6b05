"""Two or three sessions meet over one job, in every order of their steps: each ends as if one had come after the other.

What is reached must be exactly what is listed, so that no list allows more than happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from nemesis.effects import EFFECT, EFFECTS, THE_END
from tests import attempt_steps, claiming
from tests.installation import ExampleInstallation
from tests.permutations import Session, Stage, Step, interleavings
from turno.jobs.claim import Claim
from turno.runner.session import HandlerConnection
from turno.store.api.commands import CANCEL, ENQUEUE, RETRY
from turno.store.engine import leases, recovery, tickets
from turno.store.handler import attempts
from turno.tenancy.identity.session import handler_session, service_session
from turno.testing.invariants import Judge, judge_of

TYPES = [("batch_invoicing", 1)]
NOW = timedelta(0)
MONTH = timedelta(days=30)
HOUR = timedelta(hours=1)
GATE = 1  # an advisory lock
Steps = list[Step]


@dataclass
class Meeting:
    """The job that the sessions meet over, and the sessions, which are opened when first asked for."""

    world: ExampleInstallation
    judge: Judge
    stack: ExitStack
    sessions: dict[str, Session] = field(default_factory=dict)
    job_id: UUID = field(default_factory=lambda: UUID(int=0))
    worker: UUID = field(default_factory=lambda: UUID(int=0))
    lost: list[UUID] = field(default_factory=list)  # jobs whose tickets a meeting took away

    def session(self, name: str) -> Session:
        """Return the session of that name; its first word says as whom it is logged in."""
        session = self.sessions.get(name)
        if session is not None:
            with suppress(psycopg.OperationalError):
                session.execute("SELECT 1")
                return session
            psycopg.Connection.close(session)
        session = self.sessions[name] = self._open(name.split(maxsplit=1)[0])
        self.stack.callback(psycopg.Connection.close, session)
        return session

    def _open(self, login: str) -> Session:
        logins = self.world.logins
        if login == "gate":
            return psycopg.connect(self.world.url, autocommit=True)
        if login == "handler":
            return handler_session(logins, self.world.handler_login(), application="test", kind=HandlerConnection)
        return service_session(logins, {"engine": logins.engine, "web": logins.web}[login], application="test")

    def clear(self) -> None:
        """Forget all jobs; TRUNCATE would take longer than the meeting."""
        self.lost.clear()
        self.world.rows(
            """
            DELETE FROM background_jobs; DELETE FROM background_job_attempts; DELETE FROM background_job_progress;
            DELETE FROM background_job_items; DELETE FROM background_job_events; DELETE FROM notifications;
            DELETE FROM background_jobs_dead_letter; DELETE FROM customers WHERE country = 'effect';
            DELETE FROM turno.tickets; DELETE FROM turno.workers; DELETE FROM turno.leases
            """
        )

    # What a meeting starts from ----------------------------------------------------------------

    def waiting(self, **options: Any) -> UUID:
        self.job_id = self.world.enqueue({"order_ids": [1]}, **options)
        self.worker = tickets.start_worker(self.world.engine, backend="exec", host="test", pid=1)
        return self.job_id

    def claimed(self, **options: Any) -> Claim:
        self.waiting(**options)
        claim = tickets.claim_job(self.world.engine, self.worker, self.job_id, types=TYPES)
        assert claim
        return claim

    def started(self, by: str = "handler", **options: Any) -> Claim:
        claim = self.claimed(**options)
        attempt_steps.start(self.session(by), claim, "test")
        return claim

    def without_ticket(self) -> None:
        self.world.rows("DELETE FROM turno.tickets WHERE job_id = %s", self.job_id)
        self.lost.append(self.job_id)

    def ended_long_ago(self, **options: Any) -> UUID:
        self.waiting(**options)
        self.world.cancel(self.job_id)
        self.world.rows("UPDATE background_jobs SET finished_at = finished_at - interval '31 days'")
        return self.job_id

    # What the sessions do ----------------------------------------------------------------------

    def claims(self) -> Step:
        def step(engine: Session) -> str:
            return "taken" if tickets.claim_job(engine, self.worker, self.job_id, types=TYPES) else "nothing"

        return step

    def claims_next(self) -> Step:
        def step(engine: Session) -> str:
            options: dict[str, Any] = {"queues": ["cold"], "types": TYPES, "backend": "exec", "slots": 1}
            return "taken" if claiming.claim(engine, self.worker, **options) else "nothing"

        return step

    def rescues(self, claim: Claim) -> Step:
        return lambda engine: recovery.rescue(
            engine, self.world.one.schema, claim.job_id, claim.token, cause="test", retry_in=NOW
        )

    def repairs(self) -> Step:
        return lambda engine: f"repaired {recovery.repair(engine, self.world.one.schema, 'exec', dry_run=False)}"

    def expires(self) -> Step:
        return lambda engine: f"expired {recovery.expire(engine, self.world.one.schema, dry_run=False)}"

    def purges(self) -> Step:
        return lambda engine: f"purged {recovery.purge(engine, self.world.one.schema, MONTH, 10, dry_run=False)}"

    def buries(self) -> Step:
        return lambda engine: f"buried {tickets.prune_workers(engine, HOUR, dry_run=False)}"

    def lives(self) -> Step:
        return lambda engine: "dead" if tickets.keep_alive(engine, self.worker) is None else "alive"

    def asks(self, statement: LiteralString, parameters: tuple[Any, ...]) -> Step:
        question = sql.SQL(statement).format(sql.Identifier(self.world.one.schema))

        def step(web: Session) -> str:
            web.execute("SELECT set_config('role', %s, true)", (self.world.one.api_role,))
            row = web.execute(question, parameters).fetchone()
            assert row
            return str(row[-1])

        return step

    def cancels(self) -> Step:
        return self.asks(CANCEL, (self.job_id, None, "test"))

    def retries(self) -> Step:
        return self.asks(RETRY, (self.job_id, None, "exec", None, None, None))

    def enqueues(self, key: str | None, order: int = 1) -> Step:
        new = self.world.new_job({"order_ids": [order]}, idempotency_key=key)
        return self.asks(ENQUEUE, new.parameters())

    def leads(self, holder: str) -> Step:
        return lambda engine: "leads" if leases.take(engine, "test", holder, HOUR) else "follows"

    # How it ended ------------------------------------------------------------------------------

    def end(self) -> str:
        """Return how the jobs stand: status, crashes and errors if any, and the ticket."""
        rows = self.world.rows(
            """
            SELECT concat_ws(' ', j.status, CASE WHEN j.cancel_requested_at IS NOT NULL THEN 'to cancel' END,
                             CASE WHEN j.errors > 0 THEN 'after an error' END,
                             CASE WHEN j.crashes > 0 THEN 'after a crash' END,
                             CASE WHEN t.state = 'running' AND NOT EXISTS (SELECT FROM turno.workers w
                                                                           WHERE w.id = t.worker_id)
                                  THEN 'orphan' ELSE coalesce(t.state, 'no ticket') END) AS job
            FROM background_jobs j LEFT JOIN turno.tickets t ON t.job_id = j.id ORDER BY j.id
            """
        )
        return ", ".join(row["job"] for row in rows) or "no job"


def in_transaction(*steps: Step, end: str = "COMMIT") -> Steps:
    """Play the steps in one transaction, and its end as a step of its own."""

    def first(session: Session) -> object:
        session.execute("BEGIN")
        return steps[0](session)

    def last(session: Session) -> None:
        session.execute(end.encode())

    return [first, *steps[1:], last]


def in_attempt(claim: Claim, *steps: Step) -> Steps:
    """Play the steps in the job's transaction, its beginning and its end as steps of their own."""

    def first(session: Session) -> None:
        attempts.begin(session, claim)

    def last(session: Session) -> None:
        session.execute("COMMIT")

    return [first, *steps, last]


def does(claim: Claim, item: str) -> Step:
    """Do a piece of work and enter it into the ledger; a refusal undoes both."""

    def step(handler: Session) -> str:
        handler.execute(EFFECT, (str(claim.job_id), item, str(claim.token)))
        attempts.items(handler, claim, [{"key": item, "state": "done"}], 1)
        return "done"

    return step


def completes(claim: Claim) -> Step:
    def step(handler: Session) -> str:
        handler.execute(EFFECT, (str(claim.job_id), THE_END, str(claim.token)))
        attempt_steps.complete(handler, claim, "{}")
        return "completed"

    return step


def fails(claim: Claim, retry_in: timedelta | None) -> Step:
    return lambda handler: attempts.fail(handler, claim, "test", {"class": "Oops"}, retry_in)


def releases(claim: Claim) -> Step:
    return lambda handler: attempts.release(handler, claim, "released", "test", datetime(2000, 1, 1, tzinfo=UTC))


def progresses(claim: Claim) -> Step:
    return lambda handler: attempts.progress(handler, claim, 1, 2, None) or "shown"


def starts(claim: Claim) -> Step:
    return lambda handler: "started" if attempt_steps.start(handler, claim, "test") else ""


def closes_gate(gate: Session) -> None:
    gate.execute("SELECT pg_advisory_lock(%s)", (GATE,))


def opens_gate(gate: Session) -> None:
    gate.execute("SELECT pg_advisory_unlock(%s)", (GATE,))


Script = Callable[[Meeting], Mapping[str, Steps]]
SCRIPTS: dict[str, tuple[Script, set[str]]] = {}


def meeting(*ends: str) -> Callable[[Script], Script]:
    """Register a script under its name, with the ends that it may have: all of them and no other."""

    def register(script: Script) -> Script:
        SCRIPTS[script.__name__.replace("_", " ")] = (script, set(ends))
        return script

    return register


@meeting(
    "engine 1 nothing; engine 2 taken: pending running",
    "engine 1 taken; engine 2 nothing: pending running",
)
def claim_and_claim(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    return {"engine 1": in_transaction(meeting.claims()), "engine 2": in_transaction(meeting.claims())}


@meeting(
    "engine 1 nothing; engine 2 taken: pending running",
    "engine 1 taken; engine 2 taken: pending running",
)
def claim_undone_and_claim(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    return {
        "engine 1": in_transaction(meeting.claims(), end="ROLLBACK"),
        "engine 2": in_transaction(meeting.claims()),
    }


@meeting(
    "engine 1 nothing; engine 2 taken: pending running",
    "engine 1 taken; engine 2 nothing: pending running",
)
def claim_next_and_claim_next(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    return {"engine 1": in_transaction(meeting.claims_next()), "engine 2": in_transaction(meeting.claims_next())}


@meeting(
    "engine claims nothing; engine rescues pending: pending after a crash ready",
    "engine claims taken; engine rescues pending: pending after a crash running",
)
def claim_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"engine claims": in_transaction(meeting.claims()), "engine rescues": in_transaction(meeting.rescues(claim))}


@meeting(
    "engine claims nothing; engine rescues pending: pending after a crash ready",
    "engine claims taken; engine rescues pending: pending after a crash running",
)
def claim_next_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {
        "engine claims": in_transaction(meeting.claims_next()),
        "engine rescues": in_transaction(meeting.rescues(claim)),
    }


@meeting(
    "engine claims nothing; web cancels cancelled: cancelled no ticket",
    "engine claims taken; web cancels requested: pending to cancel running",
)
def claim_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    return {"engine claims": in_transaction(meeting.claims()), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "handler started; web cancels requested: running to cancel running",
)
def start_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.claimed()
    return {"handler": in_transaction(starts(claim)), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "handler lost; engine rescues pending: pending ready",
    "handler started; engine rescues pending: pending after a crash ready",
)
def start_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.claimed()
    return {"handler": in_transaction(starts(claim)), "engine rescues": in_transaction(meeting.rescues(claim))}


@meeting(
    "handler completed, ended; engine rescues pending: pending after a crash ready",
    "handler completed; engine rescues gone: completed no ticket",
    "handler ended; engine rescues pending: pending after a crash ready",
)
def complete_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"handler": in_attempt(claim, completes(claim)), "engine rescues": in_transaction(meeting.rescues(claim))}


@meeting(
    "handler completed; engine rescues gone: completed no ticket",
    "handler lost; engine rescues pending: pending after a crash ready",
)
def complete_and_rescue_that_cannot_end_the_session(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started(by="handler before")
    return {"handler": in_attempt(claim, completes(claim)), "engine rescues": in_transaction(meeting.rescues(claim))}


@meeting(
    "handler completed; web cancels ended: completed no ticket",
    "handler completed; web cancels requested: completed to cancel no ticket",
)
def complete_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"handler": in_attempt(claim, completes(claim)), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "handler completed; engine rescues gone; engine claims nothing: completed no ticket",
    "handler lost; engine rescues pending; engine claims nothing: pending after a crash ready",
    "handler lost; engine rescues pending; engine claims taken: pending after a crash running",
)
def complete_and_rescue_and_another_claim(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started(by="handler before")
    return {
        "handler": in_attempt(claim, completes(claim)),
        "engine rescues": [meeting.rescues(claim)],
        "engine claims": [meeting.claims()],
    }


@meeting(
    "engine 1 gone; engine 2 pending; engine claims nothing: pending after a crash ready",
    "engine 1 gone; engine 2 pending; engine claims taken: pending after a crash running",
    "engine 1 pending; engine 2 gone; engine claims nothing: pending after a crash ready",
    "engine 1 pending; engine 2 gone; engine claims taken: pending after a crash running",
)
def rescue_and_rescue_and_another_claim(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {
        "engine 1": [meeting.rescues(claim)],
        "engine 2": [meeting.rescues(claim)],
        "engine claims": [meeting.claims()],
    }


@meeting(
    "handler done, completed; web cancels ended: completed no ticket",
    "handler done, completed; web cancels requested: completed to cancel no ticket",
)
def work_and_complete_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {
        "handler": in_attempt(claim, does(claim, "a"), completes(claim)),
        "web cancels": in_transaction(meeting.cancels()),
    }


@meeting(
    "handler done, completed, ended; engine rescues pending: pending after a crash ready",
    "handler done, completed; engine rescues gone: completed no ticket",
    "handler done, ended; engine rescues pending: pending after a crash ready",
    "handler ended; engine rescues pending: pending after a crash ready",
)
def items_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {
        "handler": [*in_attempt(claim, does(claim, "a")), *in_attempt(claim, completes(claim))],
        "engine rescues": in_transaction(meeting.rescues(claim)),
    }


@meeting(
    "handler done, completed; engine rescues gone: completed no ticket",
    "handler done, lost; engine rescues pending: pending after a crash ready",
    "handler lost, lost; engine rescues pending: pending after a crash ready",
)
def items_and_rescue_that_cannot_end_the_session(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started(by="handler before")
    return {
        "handler": [*in_attempt(claim, does(claim, "a")), *in_attempt(claim, completes(claim))],
        "engine rescues": in_transaction(meeting.rescues(claim)),
    }


@meeting(
    "engine 1 gone; engine 2 pending: pending after a crash ready",
    "engine 1 pending; engine 2 gone: pending after a crash ready",
)
def rescue_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"engine 1": in_transaction(meeting.rescues(claim)), "engine 2": in_transaction(meeting.rescues(claim))}


@meeting(
    "engine rescues cancelled; web cancels requested: cancelled to cancel no ticket",
    "engine rescues pending; web cancels cancelled: cancelled after a crash no ticket",
)
def rescue_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"engine rescues": in_transaction(meeting.rescues(claim)), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "handler cancelled; web cancels requested: cancelled to cancel no ticket",
    "handler pending; web cancels cancelled: cancelled after an error no ticket",
)
def fail_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"handler": in_transaction(fails(claim, NOW)), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "handler cancelled; web cancels requested: cancelled to cancel no ticket",
    "handler failed; web cancels ended: failed after an error no ticket",
)
def fail_for_good_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"handler": in_transaction(fails(claim, None)), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "handler failed; web retries accepted: failed after an error no ticket, pending ready",
    "handler failed; web retries not_retryable: failed after an error no ticket",
)
def fail_for_good_and_retry(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"handler": in_transaction(fails(claim, None)), "web retries": in_transaction(meeting.retries())}


@meeting(
    "handler cancelled; web cancels requested: cancelled to cancel no ticket",
    "handler pending; web cancels cancelled: cancelled no ticket",
)
def release_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"handler": in_transaction(releases(claim)), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "web 1 accepted; web 2 replayed: cancelled no ticket, pending ready",
    "web 1 replayed; web 2 accepted: cancelled no ticket, pending ready",
)
def retry_and_retry(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.ended_long_ago()
    return {"web 1": in_transaction(meeting.retries()), "web 2": in_transaction(meeting.retries())}


@meeting(
    "web 1 accepted; web 2 accepted: cancelled no ticket, pending ready",
    "web 1 replayed; web 2 accepted: cancelled no ticket, pending ready",
)
def retry_undone_and_retry(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.ended_long_ago()
    return {"web 1": in_transaction(meeting.retries(), end="ROLLBACK"), "web 2": in_transaction(meeting.retries())}


@meeting(
    "web 1 accepted; web 2 replayed: pending ready",
    "web 1 replayed; web 2 accepted: pending ready",
)
def one_key_twice(meeting: Meeting) -> Mapping[str, Steps]:
    return {"web 1": in_transaction(meeting.enqueues("k")), "web 2": in_transaction(meeting.enqueues("k"))}


@meeting(
    "web 1 accepted; web 2 accepted: pending ready",
    "web 1 replayed; web 2 accepted: pending ready",
)
def one_key_undone_and_again(meeting: Meeting) -> Mapping[str, Steps]:
    return {
        "web 1": in_transaction(meeting.enqueues("k"), end="ROLLBACK"),
        "web 2": in_transaction(meeting.enqueues("k")),
    }


@meeting(
    "web 1 accepted; web 2 conflict: pending ready",
    "web 1 conflict; web 2 accepted: pending ready",
)
def one_key_with_two_bodies(meeting: Meeting) -> Mapping[str, Steps]:
    return {"web 1": in_transaction(meeting.enqueues("k")), "web 2": in_transaction(meeting.enqueues("k", 2))}


@meeting(
    "engine expires expired 0; engine claims taken: pending running",
    "engine expires expired 1; engine claims nothing: cancelled no ticket",
)
def expire_and_claim(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting(expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    return {"engine expires": in_transaction(meeting.expires()), "engine claims": in_transaction(meeting.claims())}


@meeting(
    "engine expires expired 0; web cancels cancelled: cancelled no ticket",
    "engine expires expired 1; web cancels ended: cancelled no ticket",
)
def expire_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting(expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    return {"engine expires": in_transaction(meeting.expires()), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "engine 1 expired 0; engine 2 expired 3: cancelled no ticket, cancelled no ticket, cancelled no ticket",
    "engine 1 expired 3; engine 2 expired 0: cancelled no ticket, cancelled no ticket, cancelled no ticket",
)
def expire_and_expire(meeting: Meeting) -> Mapping[str, Steps]:
    for _ in range(3):
        meeting.waiting(expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    return {"engine 1": in_transaction(meeting.expires()), "engine 2": in_transaction(meeting.expires())}


@meeting(
    "engine repairs repaired 0; handler completed: completed no ticket",
)
def repair_and_complete(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"engine repairs": in_transaction(meeting.repairs()), "handler": in_attempt(claim, completes(claim))}


@meeting(
    "engine repairs repaired 1; handler lost: pending ready",
)
def repair_and_complete_without_a_ticket(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    meeting.without_ticket()
    return {"engine repairs": in_transaction(meeting.repairs()), "handler": in_attempt(claim, completes(claim))}


@meeting(
    "engine repairs repaired 0; web accepted: pending ready",
)
def repair_and_enqueue(meeting: Meeting) -> Mapping[str, Steps]:
    return {"engine repairs": in_transaction(meeting.repairs()), "web": in_transaction(meeting.enqueues(None))}


@meeting(
    "engine repairs repaired 0; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; web cancels cancelled: cancelled no ticket",
)
def repair_and_cancel_without_a_ticket(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    meeting.without_ticket()
    return {"engine repairs": in_transaction(meeting.repairs()), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "engine repairs repaired 0; web cancels requested: running to cancel no ticket",
    "engine repairs repaired 1; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; web cancels requested: pending to cancel ready",
)
def repair_and_cancel_of_a_running_job_without_a_ticket(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.started()
    meeting.without_ticket()
    return {"engine repairs": in_transaction(meeting.repairs()), "web cancels": in_transaction(meeting.cancels())}


@meeting(
    "engine 1 repaired 0; engine 2 repaired 2: pending ready, pending ready",
    "engine 1 repaired 2; engine 2 repaired 0: pending ready, pending ready",
)
def repair_and_repair(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.started()
    meeting.without_ticket()
    meeting.waiting()
    meeting.without_ticket()
    return {"engine 1": in_transaction(meeting.repairs()), "engine 2": in_transaction(meeting.repairs())}


@meeting(
    "engine repairs repaired 1; engine claims nothing: pending ready",
    "engine repairs repaired 1; engine claims taken: pending running",
)
def repair_and_claim(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    meeting.without_ticket()
    return {"engine repairs": in_transaction(meeting.repairs()), "engine claims": in_transaction(meeting.claims())}


@meeting(
    "engine purges purged 0; web retries accepted: cancelled no ticket, pending ready",
    "engine purges purged 1; web retries accepted: pending ready",
    "engine purges purged 1; web retries unknown: no job",
)
def purge_and_retry(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.ended_long_ago()
    return {"engine purges": in_transaction(meeting.purges()), "web retries": in_transaction(meeting.retries())}


@meeting(
    "engine 1 purged 0; engine 2 purged 1: no job",
    "engine 1 purged 1; engine 2 purged 0: no job",
)
def purge_and_purge(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.ended_long_ago()
    return {"engine 1": in_transaction(meeting.purges()), "engine 2": in_transaction(meeting.purges())}


@meeting(
    "engine purges purged 1; web accepted: pending ready",
    "engine purges purged 1; web replayed: no job",
)
def purge_and_the_same_key(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.ended_long_ago(idempotency_key="k")
    return {"engine purges": in_transaction(meeting.purges()), "web": in_transaction(meeting.enqueues("k"))}


@meeting(
    "engine purges purged 1; web accepted: pending ready",
    "engine purges purged 1; web replayed: no job",
)
def purge_within_an_enqueue_of_the_same_key(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.ended_long_ago(idempotency_key="k")
    return {
        "gate": [closes_gate, opens_gate],
        "engine purges": in_transaction(meeting.purges()),
        "web": in_transaction(meeting.enqueues("k")),
    }


@meeting(
    "handler lost; web cancels cancelled; engine rescues pending: cancelled no ticket",
    "handler lost; web cancels requested; engine rescues cancelled: cancelled to cancel no ticket",
    "handler started; web cancels cancelled; engine rescues pending: cancelled after a crash no ticket",
    "handler started; web cancels requested; engine rescues cancelled: cancelled to cancel no ticket",
)
def start_and_cancel_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.claimed()
    return {
        "handler": in_transaction(starts(claim)),
        "web cancels": in_transaction(meeting.cancels()),
        "engine rescues": in_transaction(meeting.rescues(claim)),
    }


@meeting(
    "engine repairs repaired 0; engine claims nothing; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; engine claims nothing; web cancels cancelled: cancelled no ticket",
    "engine repairs repaired 1; engine claims taken; web cancels requested: pending to cancel running",
)
def repair_and_claim_and_cancel(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    meeting.without_ticket()
    return {
        "engine repairs": in_transaction(meeting.repairs()),
        "engine claims": in_transaction(meeting.claims()),
        "web cancels": in_transaction(meeting.cancels()),
    }


@meeting(
    "handler shows lost; handler completed: completed no ticket",
    "handler shows shown; handler completed: completed no ticket",
)
def progress_and_complete(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {"handler shows": in_transaction(progresses(claim)), "handler": in_attempt(claim, completes(claim))}


@meeting(
    "handler shows lost; engine rescues pending: pending after a crash ready",
    "handler shows shown; engine rescues pending: pending after a crash ready",
)
def progress_and_rescue(meeting: Meeting) -> Mapping[str, Steps]:
    claim = meeting.started()
    return {
        "handler shows": in_transaction(progresses(claim)),
        "engine rescues": in_transaction(meeting.rescues(claim)),
    }


@meeting(
    "engine buries buried 0; engine lives alive; engine claims taken: pending running",
    "engine buries buried 1; engine lives dead; engine claims nothing: pending ready",
    "engine buries buried 1; engine lives dead; engine claims taken: pending orphan",
)
def bury_and_heartbeat_and_claim(meeting: Meeting) -> Mapping[str, Steps]:
    meeting.waiting()
    meeting.world.rows("UPDATE turno.workers SET alive_at = alive_at - interval '2 hours'")
    return {
        "engine buries": in_transaction(meeting.buries()),
        "engine lives": in_transaction(meeting.lives()),
        "engine claims": in_transaction(meeting.claims()),
    }


@meeting("engine 1 follows; engine 2 leads: no job", "engine 1 leads; engine 2 follows: no job")
def lease_and_lease(meeting: Meeting) -> Mapping[str, Steps]:
    return {"engine 1": in_transaction(meeting.leads("one")), "engine 2": in_transaction(meeting.leads("two"))}


@meeting("engine 1 follows; engine 2 leads: no job", "engine 1 leads; engine 2 leads: no job")
def lease_undone_and_lease(meeting: Meeting) -> Mapping[str, Steps]:
    return {
        "engine 1": in_transaction(meeting.leads("one"), end="ROLLBACK"),
        "engine 2": in_transaction(meeting.leads("two")),
    }


@pytest.fixture(scope="module")
def hall(module_world: ExampleInstallation) -> Iterator[Meeting]:
    """The sessions of all meetings; each stays open from one to the next."""
    module_world.forget()
    # A function's statements are no steps that could be played one by one; a closed gate stops one after its INSERT.
    module_world.rows(
        """
        CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::integer);
            RETURN NULL;
        END $$;
        CREATE TRIGGER gate AFTER INSERT ON background_jobs FOR EACH STATEMENT EXECUTE FUNCTION gate(1)
        """
    )
    with ExitStack() as stack:
        yield Meeting(module_world, stack.enter_context(judge_of(module_world.url, module_world.one, EFFECTS)), stack)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_order_ends_as_it_should(hall: Meeting, name: str) -> None:
    script, allowed = SCRIPTS[name]
    stage = Stage(hall.world.admin)
    hall.clear()
    lengths = {session: len(steps) for session, steps in script(hall).items()}
    reached: dict[str, tuple[str, ...]] = {}
    for order in interleavings(lengths):
        hall.clear()
        steps = script(hall)
        said = stage.play(order, {session: hall.session(session) for session in steps}, steps)
        words = "; ".join(f"{session} {', '.join(filter(None, mine))}" for session, mine in said.items() if any(mine))
        reached.setdefault(f"{words}: {hall.end()}", order)
        assert hall.judge.broken(lost=hall.lost) == [], (order, words)
    assert set(reached) == allowed, reached
