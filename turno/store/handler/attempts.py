"""The statements of an attempt about its job, as the tenant's handler role and under the token of the claim."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb

from turno.errors import NotEnqueued
from turno.jobs.job import Claim
from turno.jobs.new_job import Enqueued, NewJob, as_json
from turno.store.handler.pipeline import keys
from turno.store.statements import named_refusals, qualified, row_of, value_of

Session = psycopg.Connection[Any]


def prove(session: Session, transaction: str, schema: str) -> None:
    """Raise HandlerMisuse if the open transaction does not have this start."""
    with named_refusals():
        _row(session, qualified("SELECT {}.assert_transaction(%s)", schema), (transaction,))


def start(session: Session, claim: Claim, worker: str, began: datetime) -> None:
    """Show the job as running since then, with an attempt: before any end but completion; raises ClaimLost."""
    with named_refusals():
        _row(
            session,
            qualified("SELECT {}.job_start(%s, %s, %s, %s)", claim.login.schema),
            (claim.job_id, claim.token, worker, began),
        )


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

    With `reset_errors` the earlier errors no longer count.
    """
    return str(
        _under_claim(
            session, "SELECT {}.job_fail(%s, %s, %s, %s, %s, %s)", claim, reason, Jsonb(error), retry_in, reset_errors
        )
    )


def release(session: Session, claim: Claim, outcome: str, reason: str, run_at: datetime) -> str:
    """Put the job back to run at `run_at`, nothing counted; returns the new status."""
    return str(_under_claim(session, "SELECT {}.job_release(%s, %s, %s, %s, %s)", claim, outcome, reason, run_at))


def await_review(session: Session, claim: Claim, doubt: str, reason: str, error: dict[str, Any]) -> str:
    """Park the job until a person settles `doubt`, nothing counted; returns the new status."""
    return str(
        _under_claim(session, "SELECT {}.job_await_review(%s, %s, %s, %s, %s)", claim, doubt, reason, Jsonb(error))
    )


def cancel(session: Session, claim: Claim, reason: str) -> str:
    """End the job as cancelled."""
    _under_claim(session, "SELECT {}.job_end_cancelled(%s, %s, %s)", claim, reason)
    return "cancelled"


def progress(session: Session, claim: Claim, done: int, total: int, message: str | None) -> bool:
    """Show progress; return whether the job has to stop."""
    return bool(_under_claim(session, "SELECT {}.job_progress(%s, %s, %s, %s, %s)", claim, done, total, message))


def items(session: Session, claim: Claim, chunk: list[dict[str, Any]], total: int) -> bool:
    """Enter a chunk into the ledger, in the transaction that did its work; returns whether to stop."""
    return bool(_under_claim(session, "SELECT {}.job_items(%s, %s, %s, %s)", claim, Jsonb(chunk), total))


def checkpoint(session: Session, claim: Claim, state: Any) -> bool:
    """Keep the state to resume from, in the transaction that did the work; returns whether to stop."""
    return bool(_under_claim(session, "SELECT {}.job_checkpoint(%s, %s, %s)", claim, Jsonb(state)))


def hold(session: Session, claim: Claim) -> bool:
    """Prove, in the handler's transaction, that it may be committed; returns whether to stop."""
    return bool(_under_claim(session, "SELECT {}.job_hold(%s, %s)", claim))


def cancel_requested(session: Session, claim: Claim) -> bool:
    """Return whether a user cancelled the job."""
    statement = qualified("SELECT {}.job_cancel_requested(%s)", claim.login.schema)
    return bool(_row(session, statement, (claim.job_id,))[0])


def enqueue_child(session: Session, claim: Claim, new: NewJob) -> Enqueued:
    """Enqueue a job of this attempt's user; raises NotEnqueued if its key identifies another request."""
    statement = qualified("SELECT job_id, verdict FROM {}.job_enqueue_child(%s, %s, %s)", claim.login.schema)
    with named_refusals():
        job_id, verdict = _row(session, statement, (claim.job_id, claim.token, as_json([new])))
    if verdict == "conflict":
        key = new.idempotency_key
        raise NotEnqueued(f"the key {key} stands for another request, that of job {job_id}: take a new key")
    return Enqueued(job_id, verdict == "accepted")


def ledger(session: Session, claim: Claim) -> dict[str, str]:
    """Return the state of each recorded item, by key."""
    with session.cursor(row_factory=tuple_row) as cursor:
        statement: LiteralString = "SELECT key, state FROM {}.background_job_items WHERE job_id = %s"
        cursor.execute(qualified(statement, claim.login.schema), (claim.job_id,))
        return dict(cursor.fetchall())


def initially_immediate(session: Session) -> str:
    """Return the deferrable constraints on the session's path that are checked at once by default, as one list in SQL.

    PostgreSQL has no command that restores the default modes of all constraints.
    """
    statement = (
        "SELECT coalesce(string_agg(format('%%I.%%I', n.nspname, c.conname), ', '), '') FROM pg_namespace n"
        # From the schema to its tables by an index: the catalog describes all tenants.
        " JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid"
        "  AND d.classid = 'pg_class'::regclass"
        " JOIN pg_constraint c ON c.conrelid = d.objid AND c.condeferrable AND NOT c.condeferred"
        " WHERE n.nspname = ANY (current_schemas(false))"
    )
    return str(_row(session, statement, ())[0])


def writing_savepoints(session: Session) -> int:
    """Count the open savepoints with a write or a row lock: each holds a transaction id."""
    statement = (
        "SELECT greatest(count(*) - 1, 0) FROM pg_locks"
        " WHERE pid = pg_backend_pid() AND locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted"
    )
    return int(_row(session, statement, ())[0])


def now(session: Session) -> datetime:
    """Return the time of the database, by which all transitions are timed."""
    moment: datetime = _row(session, "SELECT clock_timestamp()", ())[0]
    return moment


def held(session: Session, claims: Sequence[Claim]) -> set[UUID]:
    """Return the jobs that their tokens still hold; waits for an open commit."""
    if not claims:
        return set()
    return set(value_of(session, qualified("SELECT {}.jobs_held(%s, %s)", claims[0].login.schema), *keys(claims)))


def lost(session: Session, claims: Sequence[Claim]) -> None:
    """Count the attempts that lost their claims and have no recorded end."""
    session.execute(qualified("SELECT {}.claims_lost(%s, %s)", claims[0].login.schema), keys(claims))


def _under_claim(session: Session, statement: LiteralString, claim: Claim, *parameters: Any) -> Any:
    with named_refusals():
        return _row(session, qualified(statement, claim.login.schema), (claim.job_id, claim.token, *parameters))[0]


def _row(session: Session, statement: LiteralString, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    return row_of(session, statement, parameters, prepare=False)
