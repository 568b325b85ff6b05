"""The steps of an attempt in separate calls: in the product they go to the server together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from turno.errors import ClaimLost
from turno.jobs.outcome import Cancel, Release
from turno.store.handler import attempts
from turno.store.handler.pipeline import JobPipeline, Result
from turno.store.statements import under_claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    import psycopg

    from turno.jobs.job import Claim
    from turno.store.handler.pipeline import Started

    Session = psycopg.Connection[Any]


def fetch(session: Session, claim: Claim) -> tuple[Started, datetime]:
    """Return the fetched job and its time; raises ClaimLost."""
    result = _pipeline(session, claim).fetch([claim]).exchange().fetched
    if result is None or result.now is None:
        raise ClaimLost("the job was not found")
    return result.jobs[claim.job_id], result.now


def fetch_batch(session: Session, claims: Sequence[Claim]) -> Mapping[UUID, Started]:
    """Open a transaction, and return the fetched jobs of these attempts."""
    result = _pipeline(session, claims[0]).fetch(claims).begin().exchange().fetched
    assert result is not None
    return result.jobs


def begin(session: Session) -> str:
    """Open the handler's transaction; return its start."""
    return JobPipeline(session, "").begin().exchange().started


def start(session: Session, claim: Claim, worker: str) -> Started:
    """Have people see that the job runs, and open no transaction for its handler."""
    result, now = fetch(session, claim)
    attempts.start(session, claim, worker, now)
    return result


def fail(
    session: Session,
    claim: Claim,
    reason: str,
    error: dict[str, Any],
    retry_in: timedelta | None,
    *,
    reset_errors: bool = False,
) -> str:
    """Record an error: pending again after `retry_in`, or failed for good; return the new status."""
    ending = "error", reason, Jsonb(error), None, retry_in, reset_errors, None
    return str(under_claim(session, claim, "attempt_end", *ending)[0])


def release(session: Session, claim: Claim, outcome: str, reason: str, run_at: datetime) -> str:
    """Put the job back to run at `run_at`; return the new status."""
    return attempts.end(session, claim, Release(run_at, outcome, reason))


def cancel(session: Session, claim: Claim, reason: str) -> str:
    """End the job as cancelled."""
    return attempts.end(session, claim, Cancel(reason))


def completed(claim: Claim, result: str = "{}") -> Result:
    """Return the stored result of a job without duration."""
    now = datetime.now(UTC)
    return Result(claim, result, now, now)


def complete(session: Session, claim: Claim, result: str) -> None:
    """Write the job's end into the transaction that is open; without one, it is refused."""
    _pipeline(session, claim).finish(_started(session), [completed(claim, result)], "test").exchange()


def complete_batch(session: Session, results: Sequence[Result]) -> None:
    """Write the jobs' ends, if there are any, into the transaction that is open, and commit it."""
    if results:
        _pipeline(session, results[0].claim).finish(_started(session), results, "test").commit().exchange()
    else:
        JobPipeline(session, "").commit().exchange()


def _started(session: Session) -> str:
    """Return the start of the transaction that is open, or of one that is over."""
    (start,) = session.execute("SELECT transaction_timestamp()::text").fetchone() or ("",)
    return str(start)


def _pipeline(session: Session, claim: Claim) -> JobPipeline:
    return JobPipeline(session, claim.login.schema)
