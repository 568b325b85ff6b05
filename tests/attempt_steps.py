"""The steps of an attempt, one at a time: in the product they go to the server together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turno.store.handler import attempts, batches
from turno.store.pipeline import Statement, exchange, insist, rows_of
from turno.store.refusals import named_refusals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    import psycopg

    from turno.jobs.claim import Claim
    from turno.store.handler.attempts import Started
    from turno.store.handler.batches import Result

    Session = psycopg.Connection[Any]


def start(session: Session, claim: Claim, worker: str) -> Started:
    """Open the attempt, and no transaction for its handler."""
    statement = attempts.starting(claim, worker)[attempts.SEEN]
    (row,) = rows_of(session, _take(session, [statement])[0])
    return attempts.Started(*row)


def complete(session: Session, claim: Claim, result: str) -> None:
    """Write the job's end into the transaction that is open."""
    _take(session, [attempts.completing(claim, result)])


def complete_group(session: Session, results: Sequence[Result], mark: UUID) -> None:
    """Write the jobs' ends into the transaction that is open, and commit it."""
    _take(session, [*batches.completing(results, mark), attempts.COMMIT])


def _take(session: Session, statements: list[Statement]) -> list[Any]:
    answers = exchange(session, statements)
    with named_refusals():
        insist(session, answers)
    return answers
