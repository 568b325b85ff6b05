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
from turno.jobs.outcome import AwaitReview, Cancel, Decision, Fail, Release, Retry
from turno.store.handler.pipeline import keys
from turno.store.statements import qualified, under_claim, value_of

Session = psycopg.Connection[Any]


def start(session: Session, claim: Claim, worker: str, began: datetime) -> None:
    """Show the job as running since then, with an attempt: before any end but completion; raises ClaimLost."""
    under_claim(session, claim, "job_start", worker, began)


def end(session: Session, claim: Claim, decision: Decision, *, reset_errors: bool = False) -> str:
    """Record the end of an attempt that did not complete its job; return the job's new status.

    With `reset_errors` the earlier errors no longer count.
    """
    ending: tuple[Any, ...]
    match decision:
        case Retry(delay, error):
            ending = "error", "an attempt failed", Jsonb(error), None, timedelta(seconds=delay), reset_errors, None
        case Fail(cause, error):
            ending = "error", cause, Jsonb(error), None, None, reset_errors, None
        case Release(run_at, outcome, reason):
            ending = outcome, reason, None, run_at, None, False, None
        case AwaitReview(doubt, reason, error):
            ending = "released", reason, Jsonb(error), None, None, False, doubt
        case Cancel(reason):
            ending = "cancelled", reason, None, None, None, False, None
    return str(under_claim(session, claim, "attempt_end", *ending)[0])


def progress(session: Session, claim: Claim, done: int, total: int, message: str | None) -> bool:
    """Show progress; return whether the job has to stop."""
    return bool(under_claim(session, claim, "job_progress", done, total, message)[0])


def items(session: Session, claim: Claim, chunk: list[dict[str, Any]], total: int) -> bool:
    """Enter a chunk into the ledger, in the transaction that did its work; returns whether to stop."""
    return bool(under_claim(session, claim, "job_items", Jsonb(chunk), total)[0])


def checkpoint(session: Session, claim: Claim, state: Any) -> bool:
    """Keep the state to resume from, in the transaction that did the work; returns whether to stop."""
    return bool(under_claim(session, claim, "job_checkpoint", Jsonb(state))[0])


def hold(session: Session, claim: Claim) -> bool:
    """Prove, in the handler's transaction, that it may be committed; returns whether to stop."""
    return bool(under_claim(session, claim, "claim_hold")[0])


def cancel_requested(session: Session, claim: Claim) -> bool:
    """Return whether a user cancelled the job."""
    statement: LiteralString = "SELECT cancel_requested_at IS NOT NULL FROM {}.background_jobs WHERE id = %s"
    return bool(value_of(session, qualified(statement, claim.login.schema), claim.job_id))


def declared_otherwise(session: Session, claim: Claim, payload: str) -> bool:
    """Return whether a release announced other fields than this digest's for the type and version, within an hour."""
    return bool(under_claim(session, claim, "payload_declared_otherwise", payload)[0])


def enqueue_child(session: Session, claim: Claim, new: NewJob) -> Enqueued:
    """Enqueue a job of this attempt's user; raises NotEnqueued if its key identifies another request."""
    _, job_id, verdict = under_claim(session, claim, "job_enqueue_child", as_json([new]))
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
    return str(value_of(session, statement))


def writing_savepoints(session: Session) -> int:
    """Count the open savepoints with a write or a row lock: each holds a transaction id."""
    statement = (
        "SELECT greatest(count(*) - 1, 0) FROM pg_locks"
        " WHERE pid = pg_backend_pid() AND locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted"
    )
    return int(value_of(session, statement))


def now(session: Session) -> datetime:
    """Return the time of the database, by which all transitions are timed."""
    moment: datetime = value_of(session, "SELECT clock_timestamp()")
    return moment


def still_claimed(session: Session, claims: Sequence[Claim]) -> set[UUID]:
    """Return the jobs that their tokens still hold; waits for an open commit."""
    if not claims:
        return set()
    return set(value_of(session, qualified("SELECT {}.jobs_held(%s, %s)", claims[0].login.schema), *keys(claims)))


def lost(session: Session, claims: Sequence[Claim]) -> None:
    """Count the attempts that lost their claims and have no recorded end."""
    session.execute(qualified("SELECT {}.claims_lost(%s, %s)", claims[0].login.schema), keys(claims))
