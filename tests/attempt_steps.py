"""The steps of an attempt, one at a time: in the product they go to the server together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from turno.errors import ClaimLost
from turno.store.handler import attempts, batches
from turno.store.handler.batches import Result
from turno.store.pipeline import Statement, raise_first_error, run_pipeline
from turno.store.refusals import named_refusals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    import psycopg

    from turno.jobs.claim import Claim
    from turno.store.handler.attempts import Started

    Session = psycopg.Connection[Any]


def fetch(session: Session, claim: Claim) -> tuple[Started, datetime]:
    """Return what the attempt finds, and when; raises ClaimLost."""
    found, now = batches.fetched(session, _take(session, [batches.fetching([claim])])[0])
    if now is None:
        raise ClaimLost("the job was not found")
    return found[claim.job_id], now


def fetch_batch(session: Session, claims: Sequence[Claim]) -> Mapping[UUID, Started]:
    """Open a transaction, and return what these attempts find."""
    found, _ = batches.fetched(session, _take(session, [batches.fetching(claims)])[0])
    attempts.begin(session)
    return found


def start(session: Session, claim: Claim, worker: str) -> Started:
    """Have people see that the job runs, and open no transaction for its handler."""
    found, now = fetch(session, claim)
    attempts.start(session, claim, worker, now)
    return found


def completed(claim: Claim, result: str = "{}") -> Result:
    """Return what is written of a job that took no time."""
    now = datetime.now(UTC)
    return Result(claim, result, now, now)


def complete(session: Session, claim: Claim, result: str) -> None:
    """Write the job's end into the transaction that is open; without one, it is refused."""
    _take(session, [batches.finishing(_started(session), [completed(claim, result)], "test")])


def complete_batch(session: Session, results: Sequence[Result]) -> None:
    """Write the jobs' ends, if there are any, into the transaction that is open, and commit it."""
    ends = [batches.finishing(_started(session), results, "test")] if results else []
    _take(session, [*ends, attempts.COMMIT])


def _started(session: Session) -> str:
    """Return the start of the transaction that is open, or of one that is over."""
    return attempts.started(_take(session, attempts.OPENING[1:])[-1])


def _take(session: Session, statements: Sequence[Statement]) -> list[Any]:
    answers = run_pipeline(session, statements)
    with named_refusals():
        raise_first_error(session, answers)
    return answers
