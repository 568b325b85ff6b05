"""What the jobs of a batch, all of one tenant, are asked for and end by together: one statement each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.pq.abc import PGresult

from turno.jobs.claim import Claim
from turno.store.handler.attempts import Started
from turno.store.one_row import value_of
from turno.store.pipeline import Statement, rows_of
from turno.store.qualified import qualified

Session = psycopg.Connection[Any]

_FETCH: LiteralString = """
SELECT job_id, payload::text, user_id, correlation_id, trace_context, attempt, errors, max_attempts, checkpoint,
       expired, cancelled, now
FROM {}.jobs_fetch($1, $2)
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What is written of a job that was completed: its result as JSON, and when it was begun and over."""

    claim: Claim
    result: str
    began: datetime
    ended: datetime


def fetching(claims: Sequence[Claim]) -> Statement:
    """Return what asks for these jobs."""
    return (qualified(_FETCH, claims[0].login.schema), _keys(claims))


def fetched(session: Session, answer: PGresult) -> tuple[dict[UUID, Started], datetime | None]:
    """Return by its id each job whose claim is held, and the database's clock then; None if there is no job."""
    found, now = {}, None
    for job_id, *row, now in rows_of(session, answer):  # noqa: B007 - the last one's, as good as any
        found[job_id] = Started(*row)
    return found, now


def finishing(transaction: str, results: Sequence[Result], worker: str) -> Statement:
    """Return the statement that completes all of these jobs or none, in the transaction with this start only."""
    return (
        qualified("SELECT {}.jobs_finish($1, $2, $3, $4, $5, $6, $7)", results[0].claim.login.schema),
        (
            transaction,
            *_keys([one.claim for one in results]),
            _array(_quoted(one.result) for one in results),
            _array(one.began.isoformat() for one in results),
            _array(one.ended.isoformat() for one in results),
            worker,
        ),
    )


def held(session: Session, claims: Sequence[Claim]) -> set[UUID]:
    """Return the jobs whose claims are still held, by the tokens; waits for a commit that is under way."""
    if not claims:
        return set()
    return set(value_of(session, qualified("SELECT {}.jobs_held(%s, %s)", claims[0].login.schema), *_keys(claims)))


def lost(session: Session, claims: Sequence[Claim]) -> None:
    """Count attempts that lost their claims, as far as no end of theirs is on record."""
    session.execute(qualified("SELECT {}.claims_lost(%s, %s)", claims[0].login.schema), _keys(claims))


def _keys(claims: Sequence[Claim]) -> tuple[str, str]:
    return _array(claim.job_id.hex for claim in claims), _array(claim.token.hex for claim in claims)


def _array(elements: Iterable[str]) -> str:
    # As PostgreSQL reads it: to write a list as an array takes psycopg some five microseconds for each element.
    return f"{{{','.join(elements)}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'
