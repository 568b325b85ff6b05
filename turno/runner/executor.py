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

from turno import crash_points
from turno.errors import (
    CalledElsewhere,
    CancelRequested,
    ClaimLost,
    EffectInDoubt,
    HandlerMisuse,
    InvalidResult,
    NeedsReview,
    PermanentFailure,
)
from turno.jobs.claim import Batch, Claim
from turno.jobs.handler import JobHandler
from turno.jobs.outcome import (
    AwaitReview,
    Cancel,
    CancelJob,
    Complete,
    Completed,
    Decision,
    Fail,
    HandedBack,
    InDoubt,
    Outcome,
    Raised,
    Release,
    Reschedule,
    Retry,
    Snooze,
    decide,
)
from turno.jobs.payload import rebuild
from turno.jobs.registry import Registry
from turno.runner import exit_codes
from turno.runner.callbacks import WorkerCallbacks
from turno.runner.context import AttemptContext
from turno.runner.resource_limits import limited_memory
from turno.runner.result_json import serialise
from turno.runner.session import HandlerConnection, JobTransaction, SessionSource, collided
from turno.runner.stop_request import HandBack
from turno.store.handler import attempts, effects
from turno.store.handler.attempts import Started

log = logging.getLogger(__name__)

T = TypeVar("T")
COLLISIONS = 4  # tries of one attempt whose transaction met another's
ELSEWHERE_PAUSE = 5.0  # seconds until a job looks again whether another has finished the call that both want


@dataclass(slots=True)
class Attempt:
    """Everything one attempt needs, from its start to its record."""

    claim: Claim
    terms: type[JobHandler[Any]]
    transaction: JobTransaction
    started: Started
    context: AttemptContext
    began: float

    @property
    def afresh(self) -> bool:
        """Say whether this attempt was healthy for so long that earlier errors no longer count."""
        return self.terms.retry.afresh(monotonic() - self.began)


class Executor:
    """Runs one claimed job to its record; the process around it may die at any line without harm."""

    def __init__(
        self,
        *,
        registry: Registry,
        sessions: SessionSource,
        worker: str,
        callbacks: WorkerCallbacks,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._registry = registry
        self._callbacks = callbacks
        self._chance = chance
        self.sessions = sessions
        self.worker = worker
        self.stop = callbacks.stop

    def execute(self, claim: Claim) -> str:
        """Run the attempt and return the job's status after it; raises ClaimLost if somebody else has the job.

        It is started before any of the handler's code is loaded: then an error there is an error of the attempt, and
        a death its crash.
        """
        with closing(JobTransaction(claim, self.sessions, self.stop, self.worker)) as transaction:
            started = transaction.start()
            crash_points.reach("started")
            return self._run(self.attempt(transaction, started), following=self._callbacks.following)

    def resume(self, claim: Claim, started: Started, decision: Decision | None) -> str:
        """Bring an attempt that was started in a group to its end, alone; what was decided is only recorded."""
        with closing(JobTransaction(claim, self.sessions, self.stop, self.worker)) as transaction:
            attempt = self.attempt(transaction, started)
            if decision is not None:
                return self._end(attempt, decision)
            transaction.begin()
            # The session is the next member's, in which nothing may have been begun.
            return self._run(attempt, following=lambda: ())

    def _run(self, attempt: Attempt, *, following: Callable[[], Batch]) -> str:
        """Work and record; what collides with another transaction, also with its commit, works again at once."""
        with closing(attempt.context):
            for tries in range(1, COLLISIONS + 1):
                try:
                    with limited_memory(attempt.terms.memory_mb):
                        outcome = self.unwanted(attempt) or self.call(attempt)
                    if isinstance(outcome, Completed):
                        return self._complete(attempt, outcome, following)
                    break
                except Exception as error:  # noqa: BLE001 - every error of a handler's is an outcome
                    if tries == COLLISIONS or not collided(error):
                        outcome = self.judge(attempt, error)
                        break
                    self._begin_again(attempt, tries)
            attempt.transaction.take_over()
            return self._end(attempt, self.decide(attempt, outcome))

    def _begin_again(self, attempt: Attempt, tries: int) -> None:
        attempt.transaction.rollback()
        attempt.context.start_over()
        sleep(0.05 * tries * self._chance())
        attempt.transaction.begin()

    def attempt(self, transaction: JobTransaction, started: Started) -> Attempt:
        """Return what was started as an attempt in this transaction."""
        terms = self._registry.terms(transaction.claim.type)
        context = AttemptContext(
            transaction=transaction,
            started=started,
            stop=self.stop,
            sessions=self.sessions,
            moved=self._callbacks.moved,
            handler=terms,
        )
        return Attempt(transaction.claim, terms, transaction, started, context, monotonic())

    def unwanted(self, attempt: Attempt) -> Cancel | None:
        """Say why a job that was claimed is not to run after all."""
        if attempt.started.cancelled:
            return Cancel("cancelled on request")
        if attempt.started.expired:
            return Cancel("expired")
        return None

    def call(self, attempt: Attempt) -> Outcome:
        """Load and call the handler inside the transaction that is open; raises whatever it raises."""
        job, handler = attempt.context, self._registry.load(attempt.claim.type)()
        payload = rebuild(handler.payload_type, attempt.started.payload)
        handler.before(job)
        answer = _alone(lambda: handler.handle(job, payload))
        handler.after(job)
        attempt.transaction.require_order()
        job.finish()
        if isinstance(answer, Reschedule | Cancel):
            return answer
        return Completed(serialise(answer))

    def judge(self, attempt: Attempt, error: Exception) -> Outcome:
        """Return which outcome an error of the handler's is; what ends the attempt or the process is raised on."""
        describe = attempt.context.errors.describe
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
                return Snooze(ELSEWHERE_PAUSE, str(error))
            case PermanentFailure() | HandlerMisuse() | InvalidResult():
                return Raised(describe(error), permanent=True)
            case MemoryError():
                raise error
            case _:
                return Raised(describe(error))

    def decide(self, attempt: Attempt, outcome: Outcome) -> Decision:
        """Return what is to be written for an outcome."""
        timed = isinstance(outcome, Reschedule | HandedBack | Snooze)
        now = attempt.transaction.insist(attempts.now) if timed else None
        return decide(
            outcome,
            errors=0 if attempt.afresh else attempt.started.errors,
            max_attempts=attempt.started.max_attempts,
            policy=attempt.terms.retry,
            now=now,
            chance=self._chance(),
        )

    def record(self, attempt: Attempt, decision: Decision) -> str:
        """Write a decision other than to complete the job, which commits; returns the job's new status."""
        return attempt.transaction.insist(lambda session: _write(session, attempt, decision))

    def _end(self, attempt: Attempt, decision: Decision) -> str:
        status = self.record(attempt, decision)
        say_if_failed(attempt.claim, decision, status)
        return status

    def _complete(self, attempt: Attempt, outcome: Completed, following: Callable[[], Batch]) -> str:
        """Commit the handler's work together with the end of its job.

        Whatever refuses that is the attempt's error; if only the answer was lost, its record says ClaimLost.
        """
        crash_points.reach("completing")
        claim = attempt.claim
        attempt.transaction.end([attempts.completing(claim, outcome.result)], _beginnable(following(), claim))
        crash_points.reach("completed")
        return "completed"


def _beginnable(following: Batch, claim: Claim) -> Claim | None:
    """Return what comes next if it can be begun in the session of this claim."""
    match following:
        case (one,) if one.login == claim.login:
            return one
    return None


def say_if_failed(claim: Claim, decision: Decision, status: str) -> None:
    """Log that a job failed for good, and of which class of error: its message may hold what the payload holds."""
    if isinstance(decision, Fail) and status == "failed":
        named = {"error_id": reference} if (reference := decision.error.get("reference")) else {}
        fields = claim.log_fields | named
        log.error("job failed, %s: %s", decision.cause, decision.error["class"], extra=fields)


def _write(session: HandlerConnection, attempt: Attempt, decision: Decision) -> str:
    claim = attempt.claim
    match decision:
        case Complete():
            raise AssertionError("completing a job commits its work; see Executor")
        case Retry(delay, error):
            pause = timedelta(seconds=delay)
            return attempts.fail(session, claim, "an attempt failed", error, pause, afresh=attempt.afresh)
        case Fail(cause, error):
            return attempts.fail(session, claim, cause, error, None, afresh=attempt.afresh)
        case Release(run_at, outcome, reason):
            return attempts.release(session, claim, outcome, reason, run_at)
        case CancelJob(reason):
            return attempts.abandon(session, claim, reason)
        case AwaitReview(key, reason, error):
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
