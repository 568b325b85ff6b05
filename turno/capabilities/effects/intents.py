"""Effects outside the database: intent and settlement, each in a separate transaction, under the claim's token."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from turno.jobs.job import Claim
from turno.store.statements import named_refusals, qualified, row_of, value_of

Session = psycopg.Connection[Any]

LONGEST_KEY = 255


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


def stored(session: Session, claim: Claim, key: str) -> tuple[Any] | None:
    """Return the result of an effect that is done, alone in a tuple, or None."""
    with session.cursor(row_factory=tuple_row) as cursor:
        statement: LiteralString = (
            "SELECT result FROM {}.external_effects WHERE key = %s AND type = %s AND state = 'done'"
        )
        cursor.execute(qualified(statement, claim.login.schema), (key, claim.type))
        return cursor.fetchone()


def intend(session: Session, claim: Claim, key: str, outside_key: UUID) -> Intent:
    """Record that this attempt is about to make the call, if it may; raises ClaimLost."""
    with named_refusals():
        asked = (claim.job_id, claim.token, key, outside_key)
        statement = qualified("SELECT * FROM {}.effect_intend(%s, %s, %s, %s)", claim.login.schema)
        return Intent(*row_of(session, statement, asked))


def reissue(session: Session, claim: Claim, key: str, intent: UUID) -> bool:
    """Take over an intent in doubt; returns whether the recorded intent was still `intent`."""
    return bool(_value(session, "SELECT {}.effect_reissue(%s, %s, %s, %s)", claim, key, intent))


def settle(session: Session, claim: Claim, key: str, intent: UUID, *, result: str | None, by: str) -> bool:
    """Record that the effect is done, with its result as JSON text, or with None that it is absent.

    Returns whether the recorded intent was still `intent`; raises ClaimLost.
    """
    state = "absent" if result is None else "done"
    statement: LiteralString = "SELECT {}.effect_settle(%s, %s, %s, %s, %s, %s::jsonb, %s)"
    return bool(_value(session, statement, claim, key, intent, state, result, by))


def call_returned(session: Session, claim: Claim) -> None:
    """Record that the call of this attempt returned without an answer."""
    _value(session, "SELECT {}.effect_call_returned(%s, %s)", claim)


def _value(session: Session, statement: LiteralString, claim: Claim, *parameters: Any) -> Any:
    with named_refusals():
        return value_of(session, qualified(statement, claim.login.schema), claim.job_id, claim.token, *parameters)
