"""What several attempts of one tenant write together: they start in one statement and complete in one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from turno.jobs.claim import Claim
from turno.store.handler.attempts import SEEN, Started, beginning, seen
from turno.store.pipeline import Statement, exchange, insist, rows_of

Session = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What is written of a job that was completed; `ran` is seconds, for the metrics."""

    claim: Claim
    result: str
    ran: float


def start(session: Session, claims: Sequence[Claim], worker: str, mark: UUID) -> dict[UUID, Started]:
    """Open the attempts in a transaction of their own, then the one of the handlers, marked as this group's.

    One network round trip. Returns by job what its attempt finds; whose claim was lost is missing.
    """
    together: Statement = ("SELECT * FROM jobs_start($1, $2, $3)", (*_keys(claims), worker))
    answers = exchange(session, [*seen(together), *beginning(mark)])
    insist(session, answers)
    return {job_id: Started(*found) for job_id, *found in rows_of(session, answers[SEEN])}


def completing(results: Sequence[Result], mark: UUID) -> list[Statement]:
    """Return what writes the end of these jobs into the group's transaction: all of them are completed, or none."""
    if not results:
        return []
    keys = _keys([one.claim for one in results])
    texts, times = [one.result for one in results], [int(1000 * one.ran) for one in results]
    return [("SELECT jobs_complete($1, $2, $3, $4, $5::integer[])", (mark, *keys, texts, times))]


def held(session: Session, claims: Sequence[Claim]) -> set[UUID]:
    """Return the jobs whose claims are still held, by the tokens; waits for a commit that is under way."""
    with session.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT jobs_held(%s, %s)", _keys(claims)).fetchone()
    assert row is not None, "a function call returns a row"  # noqa: S101
    return set(row[0])


def _keys(claims: Sequence[Claim]) -> tuple[list[UUID], list[UUID]]:
    return [claim.job_id for claim in claims], [claim.token for claim in claims]
