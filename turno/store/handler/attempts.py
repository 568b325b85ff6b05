"""What one attempt writes about its job, as the tenant's handler role and under the claim's token."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int2

from turno.errors import NotEnqueued
from turno.jobs.claim import Claim
from turno.jobs.enqueue_options import Enqueued, EnqueueOptions
from turno.jobs.handler import JobHandler
from turno.store.one_row import row_of
from turno.store.pipeline import Statement, raise_first_error, run_pipeline
from turno.store.refusals import named_refusals
from turno.traces import trace_id

Session = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Started:
    """A job as its attempt finds it; `errors` were counted before this attempt."""

    payload: dict[str, Any]
    user_id: str
    correlation_id: str | None
    trace_context: str | None
    attempt: int
    errors: int
    max_attempts: int
    checkpoint: Any
    expired: bool
    cancelled: bool

    @property
    def log_fields(self) -> dict[str, object]:
        """Return by which ids a line of the log is found with the request that it follows from."""
        return {"correlation_id": self.correlation_id, "trace_id": trace_id(self.trace_context)}


BEGIN: Statement = ("BEGIN", ())
COMMIT: Statement = ("COMMIT", ())


def beginning(claim: Claim) -> list[Statement]:
    """Return what opens a handler's transaction and marks it as an attempt's; see assert_attempt in the schema."""
    return [BEGIN, (f"SET LOCAL turno.attempt = '{claim.token}'", ())]  # which has no parameters, and needs no plan


def begin(session: Session, claim: Claim) -> None:
    """Open the handler's transaction and mark it as this attempt's."""
    raise_first_error(session, run_pipeline(session, beginning(claim)))


def start(session: Session, claim: Claim, worker: str, began: datetime) -> None:
    """Show the job as running since then, with an attempt: before any end but completion; raises ClaimLost."""
    with named_refusals():
        _row(session, "SELECT job_start(%s, %s, %s, %s)", (claim.job_id, claim.token, worker, began))


def fail(
    session: Session,
    claim: Claim,
    reason: str,
    error: dict[str, Any],
    retry_in: timedelta | None,
    *,
    reset_errors: bool = False,
) -> str:
    """Record an error: pending again after `retry_in`, or failed for good; returns the new status.

    With `reset_errors` the errors before this one no longer count.
    """
    return str(
        _under_claim(
            session, "SELECT job_fail(%s, %s, %s, %s, %s, %s)", claim, reason, Jsonb(error), retry_in, reset_errors
        )
    )


def release(session: Session, claim: Claim, outcome: str, reason: str, run_at: datetime) -> str:
    """Put the job back to run at `run_at`, nothing counted; returns the new status."""
    return str(_under_claim(session, "SELECT job_release(%s, %s, %s, %s, %s)", claim, outcome, reason, run_at))


def cancel(session: Session, claim: Claim, reason: str) -> str:
    """End the job as cancelled."""
    _under_claim(session, "SELECT job_end_cancelled(%s, %s, %s)", claim, reason)
    return "cancelled"


def progress(session: Session, claim: Claim, done: int, total: int, message: str | None) -> bool:
    """Show progress; returns whether somebody asked the job to stop."""
    return bool(_under_claim(session, "SELECT job_progress(%s, %s, %s, %s, %s)", claim, done, total, message))


def items(session: Session, claim: Claim, chunk: list[dict[str, Any]], total: int) -> bool:
    """Enter a chunk into the ledger, in the transaction that did its work; returns whether to stop."""
    return bool(_under_claim(session, "SELECT job_items(%s, %s, %s, %s)", claim, Jsonb(chunk), total))


def checkpoint(session: Session, claim: Claim, state: Any) -> bool:
    """Keep the state to resume from, in the transaction that did the work; returns whether to stop."""
    return bool(_under_claim(session, "SELECT job_checkpoint(%s, %s, %s)", claim, Jsonb(state)))


def cancel_requested(session: Session, claim: Claim) -> bool:
    """Say whether somebody asked the job to stop."""
    return bool(_row(session, "SELECT job_cancel_requested(%s)", (claim.job_id,))[0])


def enqueue_child(
    session: Session,
    claim: Claim,
    handler: type[JobHandler[Any]],
    payload: Any,
    *,
    options: EnqueueOptions,
    key: str | None,
    line: str | None,
) -> Enqueued:
    """Enqueue a job that this attempt asks for; raises NotEnqueued if its key stands for another request."""
    asked = (handler.type, Int2(handler.version), options.queue, Int2(options.priority), handler.retry.max_attempts)
    statement = (
        "SELECT job_id, verdict FROM job_enqueue_child(%s, %s, %s, %s, %s, %s, %s, %s, %s, NULL, %s, %s, %s, %s)"
    )
    lasting = (options.unique_for, options.unique_while)
    parameters = (claim.job_id, claim.token, *asked, Jsonb(payload), options.run_at, key, *lasting, line)
    with named_refusals():
        job_id, verdict = _row(session, statement, parameters)
    if verdict == "conflict":
        raise NotEnqueued(f"the key {key} stands for another request, that of job {job_id}: take a new key")
    return Enqueued(job_id, verdict == "accepted")


def ledger(session: Session, claim: Claim) -> dict[str, str]:
    """Return the state of every item that the ledger knows, by key."""
    with session.cursor(row_factory=tuple_row) as cursor:
        cursor.execute("SELECT key, state FROM background_job_items WHERE job_id = %s", (claim.job_id,))
        return dict(cursor.fetchall())


def writing_savepoints(session: Session) -> int:
    """Count the open savepoints in which something was written or locked: each holds a transaction id of its own."""
    statement = (
        "SELECT greatest(count(*) - 1, 0) FROM pg_locks"
        " WHERE pid = pg_backend_pid() AND locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted"
    )
    return int(_row(session, statement, ())[0])


def now(session: Session) -> datetime:
    """Return the database's clock, the only one that decides."""
    moment: datetime = _row(session, "SELECT clock_timestamp()", ())[0]
    return moment


def _under_claim(session: Session, statement: LiteralString, claim: Claim, *parameters: Any) -> Any:
    with named_refusals():
        return _row(session, statement, (claim.job_id, claim.token, *parameters))[0]


def _row(session: Session, statement: LiteralString, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    return row_of(session, statement, parameters, prepare=False)
