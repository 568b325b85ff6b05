"""`job.once`: an outside effect is issued only where it is certain that it was not issued before."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString
from uuid import UUID, uuid5

import psycopg
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb

from turno import crash_points
from turno.errors import (
    ClaimLost,
    EndsAttempt,
    HandlerMisuse,
    InDoubt,
    InvalidResult,
    NeedsReview,
    NotIssued,
    Postponed,
)
from turno.jobs.job import Claim
from turno.jobs.job_context import Absent, Done, Effect, Finding, JobContext, Unknown
from turno.jobs.json_text import serialise_answer
from turno.runner.context import AttemptContext, attempt_of
from turno.store.statements import qualified, under_claim

log = logging.getLogger(__name__)

LONGEST_KEY = 255
NOT_ABOUT_THE_EFFECT = (EndsAttempt, HandlerMisuse, InvalidResult, MemoryError)
OUTSIDE_KEYS = UUID("6f1f2f0c-52a1-4c3e-8b0f-6d1f5a3c9e77")

Session = psycopg.Connection[Any]
Call = Callable[[Effect], Any]
Reconcile = Callable[[Effect], Finding | Awaitable[Finding]]
# Yields the functions to call, and receives their results.
Steps = Generator[Callable[[], Any], Any, Any]


@dataclass(frozen=True, slots=True)
class Intent:
    """The record of an effect that an attempt needs; `token` identifies the recorded intent."""

    verdict: Literal["issue", "done", "doubt", "elsewhere", "foreign"]
    result: Any
    outside_key: UUID
    token: UUID
    caller_gone: bool
    calls: int
    since: datetime
    age: timedelta


class EffectInDoubt(InDoubt):
    """A call of `job.once`, or its look-up, failed; the next attempt looks the effect up."""

    def __init__(self, key: str) -> None:
        super().__init__(key, f"{key} may have happened, and is looked up before anything is repeated")


def once(job: JobContext, key: str, call: Call, reconcile: Reconcile | None, *, idempotent: bool) -> Any:
    """Return the result of the effect `key`, issued now, found, or stored before; an awaitable in an event loop."""
    if not 1 <= len(key) <= LONGEST_KEY or "\0" in key:
        raise HandlerMisuse(f"the key of job.once must have 1 to {LONGEST_KEY} characters, without NUL")
    attempt = attempt_of(job, f"the outside effect {key}")
    attempt.transaction.alone()
    return _drive(OutsideCall(attempt, key, call, reconcile, idempotent=idempotent).steps())


def outside_key(schema: str, key: str) -> UUID:
    """Return the id of an effect outside: derived, so that it is the same even after a restore of the database."""
    return uuid5(OUTSIDE_KEYS, f"{schema}/{key}")


class OutsideCall:
    """One use of `job.once`, from the recorded intent to the recorded result."""

    def __init__(
        self, attempt: AttemptContext, key: str, call: Call, reconcile: Reconcile | None, *, idempotent: bool
    ) -> None:
        self._attempt = attempt
        self._transaction = attempt.transaction
        self._claim = attempt.claim
        self._key = key
        self._call = call
        self._reconcile = reconcile
        self._idempotent = idempotent

    def steps(self) -> Steps:
        """Yield the calls to make and return the result of the effect."""
        stored = stored_result(self._transaction.connection, self._claim, self._key)
        if stored is not None:
            return stored[0]
        with self._attempt.between_transactions():
            known = intend(
                self._transaction.connection, self._claim, self._key, outside_key(self._claim.login.schema, self._key)
            )
            crash_points.reach("intended")
            match known.verdict:
                case "issue":
                    return (yield from self._issue(known))
                case "done":
                    return known.result
                case "doubt":
                    return (yield from self._resolve(known))
                case "elsewhere":
                    raise Postponed(f"another attempt may be issuing {self._key} now")
                case "foreign":
                    raise HandlerMisuse(f"the key {self._key!r} of job.once belongs to another job type")

    def _issue(self, known: Intent) -> Steps:
        """Make the call; the intent on record is this attempt's own."""
        try:
            with self._transaction.no_transaction():
                answer = yield lambda: self._call(self._effect(known))
            crash_points.reach("called")
            text = serialise_answer(answer)
        except NotIssued:
            self._settle(self._claim.token, None, "its call, which did nothing")
            raise
        except Exception as error:
            self._note_return()
            raise self._doubt(error) from error
        self._settle(self._claim.token, text, "its call")
        crash_points.reach("settled")
        return answer

    def _resolve(self, known: Intent) -> Steps:
        """Find out whether an intent without a settlement was carried out."""
        finding = yield from self._find(known)
        match finding:
            case Done(result):
                self._settle(known.token, serialise_answer(result), "a look-up")
                return result
            case Unknown(why):
                raise NeedsReview(self._key, why)
            case Absent() if not (known.caller_gone or self._idempotent):
                raise NeedsReview(
                    self._key, "it was not found, but the process that may be issuing it was never seen to end"
                )
        if not reissue(self._transaction.connection, self._claim, self._key, known.token):
            raise Postponed(f"another attempt settles {self._key} now")
        return (yield from self._issue(known))

    def _find(self, known: Intent) -> Steps:
        if (reconcile := self._reconcile) is None:
            return (
                Absent() if self._idempotent else Unknown("it may have been issued, and its handler cannot look it up")
            )
        try:
            with self._transaction.no_transaction():
                finding = yield lambda: reconcile(self._effect(known))
        except Exception as error:
            raise self._doubt(error) from error
        if not isinstance(finding, Done | Absent | Unknown):
            raise HandlerMisuse(f"reconcile must answer Done, Absent or Unknown, not {type(finding).__name__}")
        return finding

    def _doubt(self, error: Exception) -> Exception:
        """Return EffectInDoubt, or an error that is not about the effect."""
        return error if isinstance(error, NOT_ABOUT_THE_EFFECT) else EffectInDoubt(self._key)

    def _settle(self, intent: Any, result: str | None, by: str) -> None:
        """Record the known outcome, in a new session if the old session broke during the call."""
        try:
            noted = settle(self._transaction.connection, self._claim, self._key, intent, result=result, by=by)
        except psycopg.OperationalError:
            self._transaction.rollback()
            noted = settle(self._transaction.connection, self._claim, self._key, intent, result=result, by=by)
        if not noted:
            raise Postponed(f"{self._key} was settled meanwhile")

    def _note_return(self) -> None:
        try:
            call_returned(self._transaction.connection, self._claim)
        except (psycopg.Error, ClaimLost) as error:
            # It stays unknown whether this call still runs, and a retry treats it as running.
            log.warning("%s stays in doubt: %s", self._key, error)

    def _effect(self, known: Intent) -> Effect:
        return Effect(self._key, known.outside_key, known.calls, known.since, known.age.total_seconds())


def stored_result(session: Session, claim: Claim, key: str) -> tuple[Any] | None:
    """Return the result of an effect that is done, alone in a tuple, or None."""
    with session.cursor(row_factory=tuple_row) as cursor:
        statement: LiteralString = (
            "SELECT result FROM {}.external_effects WHERE key = %s AND type = %s AND state = 'done'"
        )
        cursor.execute(qualified(statement, claim.login.schema), (key, claim.type))
        return cursor.fetchone()


def intend(session: Session, claim: Claim, key: str, outside_key: UUID) -> Intent:
    """Record that this attempt is about to make the call, if it may; raises ClaimLost."""
    return Intent(*under_claim(session, claim, "effect_intend", key, outside_key))


def reissue(session: Session, claim: Claim, key: str, intent: UUID) -> bool:
    """Take over an intent in doubt; returns whether the recorded intent was still `intent`."""
    return bool(under_claim(session, claim, "effect_reissue", key, intent)[0])


def settle(session: Session, claim: Claim, key: str, intent: UUID, *, result: str | None, by: str) -> bool:
    """Record that the effect is done, with its result as JSON text, or with None that it is absent.

    Returns whether the recorded intent was still `intent`; raises ClaimLost.
    """
    state = "absent" if result is None else "done"
    stored = None if result is None else Jsonb(result, dumps=str)
    return bool(under_claim(session, claim, "effect_settle", key, intent, state, stored, by)[0])


def call_returned(session: Session, claim: Claim) -> None:
    """Record that the call of this attempt returned without an answer."""
    under_claim(session, claim, "effect_call_returned")


def _drive(steps: Steps) -> Any:
    """Make the calls that the steps yield, and return their result; within an event loop, return an awaitable."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        result = _result(steps, awaits=False)
        try:
            result.send(None)  # to its end: it waits for nothing
        except StopIteration as end:
            return end.value
    return _result(steps, awaits=True)


async def _result(steps: Steps, *, awaits: bool) -> Any:
    try:
        call = next(steps)
        while True:
            try:
                answer = call()
                if isinstance(answer, Awaitable):
                    answer = await _permitted(answer, awaits=awaits)
            except BaseException as error:  # noqa: BLE001 - it is raised again where the step waits
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value


def _permitted(answer: Awaitable[Any], *, awaits: bool) -> Awaitable[Any]:
    """Return the answer of an asynchronous function; raises HandlerMisuse where no event loop runs."""
    if awaits:
        return answer
    if isinstance(answer, Coroutine):
        answer.close()
    raise HandlerMisuse("job.once takes an asynchronous function only where `handle` is asynchronous")
