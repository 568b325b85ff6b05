"""The life of one attempt, from the claim to its record."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from json import dumps
from time import monotonic, sleep
from typing import Any

import psycopg

from app import crash_points
from app.errors import CancelRequested, ClaimLost, HandlerMisuse, InvalidResult, PermanentFailure
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
    Outcome,
    Raised,
    Release,
    Reschedule,
    Retry,
    decide,
)
from app.jobs.payload import rebuild
from app.jobs.registry import Registry
from app.store import attempts
from app.store.attempts import Started
from app.work.context import AttemptContext
from app.work.limits import limited_memory
from app.work.session import JobTransaction, SessionSource, collided, describe
from app.work.stop import HandBack, StopRequest

log = logging.getLogger(__name__)

LARGEST_RESULT = 256 * 1024
COLLISIONS = 4  # tries of one attempt whose transaction met another's


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
        stop: StopRequest,
        moved: Callable[[], None] = lambda: None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._registry = registry
        self._sessions = sessions
        self._worker = worker
        self._stop = stop
        self._moved = moved
        self._chance = chance

    def execute(self, claim: Claim) -> str:
        """Run the attempt and return the job's status after it; raises ClaimLost if somebody else has the job."""
        attempt = self._start(claim)
        try:
            with limited_memory(attempt.handler.memory_mb):
                outcome = self._work(attempt)
            decision = self._decide(attempt, outcome)
            return self._record(attempt, decision)
        finally:
            attempt.context.close()
            attempt.transaction.close()

    def _start(self, claim: Claim) -> Attempt:
        handler = self._registry.load(claim.type)()
        transaction = JobTransaction(claim, self._sessions)
        started = attempts.start(transaction.connection, claim, self._worker)
        crash_points.reach("started")
        context = AttemptContext(
            transaction=transaction, started=started, stop=self._stop, sessions=self._sessions, moved=self._moved
        )
        return Attempt(claim, handler, transaction, started, context, monotonic())

    def _work(self, attempt: Attempt) -> Outcome:
        outcome = self._try(attempt)
        if not isinstance(outcome, Completed):
            attempt.transaction.rollback()
        return outcome

    def _try(self, attempt: Attempt) -> Outcome:
        if attempt.started.cancelled:
            return Cancel("cancelled on request")
        if attempt.started.expired:
            return Cancel("expired")
        for tries in range(1, COLLISIONS + 1):
            try:
                return self._handle(attempt)
            except Exception as error:  # noqa: BLE001 - every error of a handler's is an outcome
                if tries == COLLISIONS or not collided(error):
                    return self._raised(error)
                attempt.transaction.rollback()
                attempt.context.start_over()
                sleep(0.05 * tries * self._chance())
        raise AssertionError("the last try returns")

    def _handle(self, attempt: Attempt) -> Outcome:
        attempt.transaction.begin()
        job, handler = attempt.context, attempt.handler
        payload = rebuild(handler.payload_type, attempt.started.payload)
        handler.before(job)
        answer = handler.handle(job, payload)
        handler.after(job)
        job.finish()
        if isinstance(answer, Reschedule | Cancel):
            return answer
        return Completed(serialise(answer))

    def _raised(self, error: Exception) -> Outcome:
        match error:
            case ClaimLost():
                raise error
            case CancelRequested():
                return Cancel("cancelled on request")
            case HandBack():
                return HandedBack()
            case PermanentFailure() | HandlerMisuse() | InvalidResult():
                return Raised(describe(error), permanent=True)
            case MemoryError():
                raise error
            case _:
                return Raised(describe(error))

    def _decide(self, attempt: Attempt, outcome: Outcome) -> Decision:
        now = attempts.now(attempt.transaction.connection) if isinstance(outcome, Reschedule | HandedBack) else None
        return decide(
            outcome,
            errors=0 if attempt.afresh else attempt.started.errors,
            max_attempts=attempt.started.max_attempts,
            policy=attempt.handler.retry,
            now=now,
            chance=self._chance(),
        )

    def _record(self, attempt: Attempt, decision: Decision) -> str:
        claim, transaction = attempt.claim, attempt.transaction
        if isinstance(decision, Complete):
            return self._commit(attempt, decision)
        session = transaction.connection
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

    def _commit(self, attempt: Attempt, decision: Complete) -> str:
        """Commit the handler's work together with the end of its job; what refuses that is the attempt's error."""
        try:
            attempts.complete(attempt.transaction.connection, attempt.claim, decision.result)
            crash_points.reach("completing")
            attempt.transaction.commit()
        except (psycopg.Error, HandlerMisuse) as error:
            # A lost reply to COMMIT lands here too: then the ticket is gone, and the record says ClaimLost.
            attempt.transaction.rollback()
            return self._record(attempt, self._decide(attempt, self._raised(error)))
        crash_points.reach("completed")
        return "completed"


def serialise(result: Any) -> str:
    """Return a handler's result as JSON text that PostgreSQL will store; raises InvalidResult."""
    if not isinstance(result, dict):
        raise InvalidResult(f"a handler returns a dict, Reschedule or Cancel, not {type(result).__name__}")
    try:
        text = dumps(result, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResult(f"the result is not plain JSON: {error}") from error
    if "\\u0000" in text or ("\\ud" in text.lower() and _lone_surrogate(result)):
        raise InvalidResult("the result holds a NUL character or half a surrogate pair, which PostgreSQL cannot store")
    if len(text) > LARGEST_RESULT:
        raise InvalidResult(f"the result has {len(text)} bytes as JSON; at most {LARGEST_RESULT} are kept")
    return text


def _lone_surrogate(result: dict[str, Any]) -> bool:
    try:
        dumps(result, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
