"""`job.once`: an outside effect is issued only where it is certain that it was not issued before."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid5

import psycopg

from turno import crash_points
from turno.capabilities.effects import intents
from turno.capabilities.effects.intents import LONGEST_KEY, Intent
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
from turno.jobs.job_context import Absent, Done, Effect, Finding, JobContext, Unknown
from turno.jobs.json_text import serialise_answer
from turno.runner.attempt import Steps, drive
from turno.runner.context import AttemptContext, attempt_of

log = logging.getLogger(__name__)

NOT_ABOUT_THE_EFFECT = (EndsAttempt, HandlerMisuse, InvalidResult, MemoryError)
OUTSIDE_KEYS = UUID("6f1f2f0c-52a1-4c3e-8b0f-6d1f5a3c9e77")

Call = Callable[[Effect], Any]
Reconcile = Callable[[Effect], Finding | Awaitable[Finding]]


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
    return drive(OutsideCall(attempt, key, call, reconcile, idempotent=idempotent).steps())


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
        stored = intents.stored(self._transaction.connection, self._claim, self._key)
        if stored is not None:
            return stored[0]
        with self._attempt.between_transactions():
            known = intents.intend(
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
            with self._transaction.at_rest():
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
        if not intents.reissue(self._transaction.connection, self._claim, self._key, known.token):
            raise Postponed(f"another attempt settles {self._key} now")
        return (yield from self._issue(known))

    def _find(self, known: Intent) -> Steps:
        if (reconcile := self._reconcile) is None:
            return (
                Absent() if self._idempotent else Unknown("it may have been issued, and its handler cannot look it up")
            )
        try:
            with self._transaction.at_rest():
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
            noted = intents.settle(self._transaction.connection, self._claim, self._key, intent, result=result, by=by)
        except psycopg.OperationalError:
            self._transaction.rollback()
            noted = intents.settle(self._transaction.connection, self._claim, self._key, intent, result=result, by=by)
        if not noted:
            raise Postponed(f"{self._key} was settled meanwhile")

    def _note_return(self) -> None:
        try:
            intents.call_returned(self._transaction.connection, self._claim)
        except (psycopg.Error, ClaimLost) as error:
            # It stays unknown whether this call still runs, and a retry treats it as running.
            log.warning("%s stays in doubt: %s", self._key, error)

    def _effect(self, known: Intent) -> Effect:
        return Effect(self._key, known.outside_key, known.calls, known.since, known.age.total_seconds())
