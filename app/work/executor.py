"""The life of one attempt, from the claim to its record."""

import logging
import os
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep
from typing import Any, TypeVar

import psycopg

from app import crash_points
from app.errors import (
    CalledElsewhere,
    CancelRequested,
    ClaimLost,
    EffectInDoubt,
    HandlerMisuse,
    InvalidResult,
    NeedsReview,
    PermanentFailure,
)
from app.jobs.claim import Claim
from app.jobs.handler import JobHandler
from app.jobs.outcome import (
    Abandon,
    Cancel,
    Complete,
    Completed,
    Decision,
    Fail,
    HandedBack,
    InDoubt,
    Outcome,
    Park,
    Postponed,
    Raised,
    Release,
    Reschedule,
    Retry,
    decide,
)
from app.jobs.payload import rebuild
from app.jobs.registry import Registry
from app.store import attempts, effects
from app.store.attempts import Started
from app.work import exit_codes
from app.work.context import AttemptContext
from app.work.errand import Errand
from app.work.limits import limited_memory
from app.work.results import serialise
from app.work.session import HandlerConnection, JobTransaction, SessionSource, collided, describe
from app.work.stop import HandBack

log = logging.getLogger(__name__)

T = TypeVar("T")
COLLISIONS = 4  # tries of one attempt whose transaction met another's
ELSEWHERE_PAUSE = 5.0  # seconds until a job looks again whether another has finished the call that both want


@dataclass(slots=True)
class Attempt:
    """Everything one attempt needs, from its start to its record."""

    claim: Claim
    handler: JobHandler[Any]
    transaction: JobTransaction
    started: Started
    context: AttemptContext
    began: float

    @property
    def afresh(self) -> bool:
        """Say whether this attempt was healthy for so long that earlier errors no longer count."""
        return self.handler.retry.afresh(monotonic() - self.began)


class Executor:
    """Runs one claimed job to its record; the process around it may die at any line without harm."""

    def __init__(
        self,
        *,
        registry: Registry,
        sessions: SessionSource,
        worker: str,
        errand: Errand,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._registry = registry
        self._errand = errand
        self._chance = chance
        self.sessions = sessions
        self.worker = worker
        self.stop = errand.stop

    def execute(self, claim: Claim) -> str:
        """Run the attempt and return the job's status after it; raises ClaimLost if somebody else has the job."""
        handler = self.handler(claim)
        with closing(JobTransaction(claim, self.sessions, self.stop, self.worker)) as transaction:
            started = transaction.start()
            crash_points.reach("started")
            return self._run(self.attempt(handler, transaction, started))

    def resume(self, claim: Claim, started: Started, decision: Decision | None) -> str:
        """Bring an attempt that was started in a group to its end, alone; what was decided is only recorded."""
        with closing(JobTransaction(claim, self.sessions, self.stop, self.worker)) as transaction:
            attempt = self.attempt(self.handler(claim), transaction, started)
            if decision is not None:
                return self.record(attempt, decision)
            transaction.begin()
            return self._run(attempt)

    def _run(self, attempt: Attempt) -> str:
        with closing(attempt.context):
            with limited_memory(attempt.handler.memory_mb):
                outcome = self._work(attempt)
            return self.record(attempt, self.decide(attempt, outcome))

    def handler(self, claim: Claim) -> JobHandler[Any]:
        """Return a new handler for a claim."""
        return self._registry.load(claim.type)()

    def attempt(self, handler: JobHandler[Any], transaction: JobTransaction, started: Started) -> Attempt:
        """Return what was started as an attempt in this transaction."""
        context = AttemptContext(
            transaction=transaction,
            started=started,
            stop=self.stop,
            sessions=self.sessions,
            moved=self._errand.moved,
            grouped=handler.group > 1,
        )
        return Attempt(transaction.claim, handler, transaction, started, context, monotonic())

    def _work(self, attempt: Attempt) -> Outcome:
        outcome = self._try(attempt)
        if not isinstance(outcome, Completed):
            attempt.transaction.take_over()
        return outcome

    def _try(self, attempt: Attempt) -> Outcome:
        if unwanted := self.unwanted(attempt):
            return unwanted
        for tries in range(1, COLLISIONS + 1):
            try:
                if tries > 1:
                    attempt.transaction.begin()
                return self.call(attempt)
            except Exception as error:  # noqa: BLE001 - every error of a handler's is an outcome
                if tries == COLLISIONS or not collided(error):
                    return self.judge(error)
                attempt.transaction.rollback()
                attempt.context.start_over()
                sleep(0.05 * tries * self._chance())
        raise AssertionError("the last try returns")

    def unwanted(self, attempt: Attempt) -> Cancel | None:
        """Say why a job that was claimed is not to run after all."""
        if attempt.started.cancelled:
            return Cancel("cancelled on request")
        if attempt.started.expired:
            return Cancel("expired")
        return None

    def call(self, attempt: Attempt) -> Outcome:
        """Call the handler inside the transaction that is open; raises whatever it raises."""
        job, handler = attempt.context, attempt.handler
        payload = rebuild(handler.payload_type, attempt.started.payload)
        handler.before(job)
        answer = _alone(lambda: handler.handle(job, payload))
        handler.after(job)
        attempt.transaction.require_order()
        job.finish()
        if isinstance(answer, Reschedule | Cancel):
            return answer
        return Completed(serialise(answer))

    def judge(self, error: Exception) -> Outcome:
        """Return which outcome an error of the handler's is; what ends the attempt or the process is raised on."""
        match error:
            case ClaimLost():
                raise error
            case CancelRequested():
                return Cancel("cancelled on request")
            case HandBack():
                return HandedBack()
            case EffectInDoubt():
                return Raised(describe(error), doubt=error.key)
            case NeedsReview():
                return InDoubt(error.key, describe(error))
            case CalledElsewhere():
                return Postponed(ELSEWHERE_PAUSE, str(error))
            case PermanentFailure() | HandlerMisuse() | InvalidResult():
                return Raised(describe(error), permanent=True)
            case MemoryError():
                raise error
            case _:
                return Raised(describe(error))

    def decide(self, attempt: Attempt, outcome: Outcome) -> Decision:
        """Return what is to be written for an outcome."""
        timed = isinstance(outcome, Reschedule | HandedBack | Postponed)
        now = attempt.transaction.insist(attempts.now) if timed else None
        return decide(
            outcome,
            errors=0 if attempt.afresh else attempt.started.errors,
            max_attempts=attempt.started.max_attempts,
            policy=attempt.handler.retry,
            now=now,
            chance=self._chance(),
        )

    def record(self, attempt: Attempt, decision: Decision) -> str:
        """Write the decision and return the job's new status; only completing it commits what is open."""
        if isinstance(decision, Complete):
            return self._commit(attempt, decision)
        return attempt.transaction.insist(lambda session: _write(session, attempt, decision))

    def _commit(self, attempt: Attempt, decision: Complete) -> str:
        """Commit the handler's work together with the end of its job; what refuses that is the attempt's error."""
        try:
            crash_points.reach("completing")
            attempt.transaction.end(
                [attempts.completing(attempt.claim, decision.result)], self._following(attempt.claim)
            )
        except (psycopg.Error, HandlerMisuse) as error:
            # A lost reply to COMMIT lands here too: then the ticket is gone, and the record says ClaimLost.
            attempt.transaction.take_over()
            return self.record(attempt, self.decide(attempt, self.judge(error)))
        crash_points.reach("completed")
        return "completed"

    def _following(self, claim: Claim) -> Claim | None:
        """Take what comes next; returns it if it can be begun in the session of this claim."""
        match self._errand.following():
            case (following,) if following.login == claim.login:
                return following
        return None


def _write(session: HandlerConnection, attempt: Attempt, decision: Retry | Fail | Release | Abandon | Park) -> str:
    claim = attempt.claim
    match decision:
        case Retry(delay, error):
            pause = timedelta(seconds=delay)
            return attempts.fail(session, claim, "an attempt failed", error, pause, afresh=attempt.afresh)
        case Fail(cause, error):
            return attempts.fail(session, claim, cause, error, None, afresh=attempt.afresh)
        case Release(run_at, outcome, reason):
            return attempts.release(session, claim, outcome, reason, run_at)
        case Abandon(reason):
            return attempts.abandon(session, claim, reason)
        case Park(key, reason, error):
            log.warning("a person must decide: %s", reason, extra=claim.log_fields)
            return effects.park(session, claim, key, reason, error)


def _alone(handle: Callable[[], T]) -> T:
    """Return what `handle` does, in this process only: a copy that it forked and let return shares our sessions."""
    here = os.getpid()
    try:
        return handle()
    finally:
        if os.getpid() != here:
            os._exit(exit_codes.BROKEN)
