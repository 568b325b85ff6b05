"""What several attempts of one tenant write together: they start in one statement and complete in one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from app.jobs.claim import Claim
from app.store.attempts import BEGIN, Started, named_refusals, together

Session = psycopg.Connection[Any]

_START: LiteralString = "SELECT * FROM jobs_start(%s, %s, %s)"
_START_AND_BEGIN: LiteralString = f"BEGIN; SET LOCAL synchronous_commit = off; {_START}; COMMIT; {BEGIN}"


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
    with together(session) as cursor:
        cursor.execute(_START_AND_BEGIN, (*_keys(claims), worker, str(mark)))
        return {job_id: Started(*found) for job_id, *found in cursor.set_result(2)}


def complete(session: Session, results: Sequence[Result], mark: UUID) -> None:
    """Write the end of these jobs into the group's transaction and commit it; raises ClaimLost, HandlerMisuse.

    All of them are completed, or nothing is committed.
    """
    with named_refusals(), session.cursor() as cursor, session.pipeline():
        if results:
            cursor.execute(
                "SELECT jobs_complete(%s, %s, %s, %s, %s::integer[])",
                (
                    mark,
                    *_keys([one.claim for one in results]),
                    [one.result for one in results],
                    [int(1000 * one.ran) for one in results],
                ),
                prepare=False,
            )
        cursor.execute("COMMIT", prepare=False)


def held(session: Session, claims: Sequence[Claim]) -> set[UUID]:
    """Return the jobs whose claims are still held, by the tokens; waits for a commit that is under way."""
    with session.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("SELECT jobs_held(%s, %s)", _keys(claims)).fetchone()
    assert row is not None, "a function call returns a row"  # noqa: S101
    return set(row[0])


def _keys(claims: Sequence[Claim]) -> tuple[list[UUID], list[UUID]]:
    return [claim.job_id for claim in claims], [claim.token for claim in claims]
