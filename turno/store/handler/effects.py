"""Effects outside the database: intent and settlement, each a transaction of its own, under the claim's token."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb

from turno.jobs.claim import Claim
from turno.store.one_row import row_of, value_of
from turno.store.qualified import qualified
from turno.store.refusals import named_refusals

Session = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Intent:
    """What is known of an effect when an attempt wants it; `token` is that of the intent on record."""

    verdict: Literal["issue", "done", "doubt", "elsewhere", "foreign"]
    result: Any
    outside_key: UUID
    token: UUID
    caller_gone: bool
    calls: int
    since: datetime
    age: timedelta


def hold(session: Session, claim: Claim) -> bool:
    """Prove, in the handler's transaction, that it may be committed; returns whether somebody asked to stop."""
    return bool(_value(session, "SELECT {}.job_hold(%s, %s)", claim))


def stored(session: Session, claim: Claim, key: str) -> tuple[Any] | None:
    """Return the result of an effect that is known to be done, alone in a tuple, or None."""
    with session.cursor(row_factory=tuple_row) as cursor:
        statement: LiteralString = (
            "SELECT result FROM {}.external_effects WHERE key = %s AND type = %s AND state = 'done'"
        )
        cursor.execute(qualified(statement, claim.login.schema), (key, claim.type))
        return cursor.fetchone()


def intend(session: Session, claim: Claim, key: str, outside_key: UUID) -> Intent:
    """Put on record that this attempt is about to make the call, if it may; raises ClaimLost."""
    with named_refusals():
        asked = (claim.job_id, claim.token, key, outside_key)
        statement = qualified("SELECT * FROM {}.effect_intend(%s, %s, %s, %s)", claim.login.schema)
        return Intent(*row_of(session, statement, asked))


def reissue(session: Session, claim: Claim, key: str, intent: UUID) -> bool:
    """Take over an intent in doubt; returns whether it was still the one that was read."""
    return bool(_value(session, "SELECT {}.effect_reissue(%s, %s, %s, %s)", claim, key, intent))


def settle(session: Session, claim: Claim, key: str, intent: UUID, *, result: str | None, by: str) -> bool:
    """Write down that the effect is done, with its result as JSON text, or with None that it is absent.

    Returns whether the intent was still the one that was read; raises ClaimLost.
    """
    state = "absent" if result is None else "done"
    statement: LiteralString = "SELECT {}.effect_settle(%s, %s, %s, %s, %s, %s::jsonb, %s)"
    return bool(_value(session, statement, claim, key, intent, state, result, by))


def call_returned(session: Session, claim: Claim) -> None:
    """Write down that this attempt's call came back without an answer."""
    _value(session, "SELECT {}.effect_call_returned(%s, %s)", claim)


def await_review(session: Session, claim: Claim, key: str, reason: str, error: dict[str, Any]) -> str:
    """End the attempt and let the job wait for a person; returns the job's status."""
    return str(_value(session, "SELECT {}.job_await_review(%s, %s, %s, %s, %s)", claim, key, reason, Jsonb(error)))


def _value(session: Session, statement: LiteralString, claim: Claim, *parameters: Any) -> Any:
    with named_refusals():
        return value_of(session, qualified(statement, claim.login.schema), claim.job_id, claim.token, *parameters)
