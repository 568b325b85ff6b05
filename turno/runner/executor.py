"""The life of a batch, from its claims to their records: its jobs share a transaction for as long as they are short.

When a job fails, collides, takes long or commits during its work, the jobs before it are committed first, and the jobs
after it run in the next transaction. A single job is a batch of one. An attempt is the call of a handler, with its
outcome and record.
"""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from turno import crash_points, tracing
from turno.errors import ClaimLost, HandlerMisuse, InvalidPayload, InvalidResult, Postponed, Waits
from turno.jobs.converter import load_payload, payload_digest
from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job import Batch, Claim
from turno.jobs.json_text import serialise
from turno.jobs.label import EXPIRED
from turno.jobs.outcome import AwaitReview, Cancel, Completed, Decision, Fail, Outcome, Reschedule, Retry, decide
from turno.runner import exit_codes
from turno.runner.context import AttemptContext
from turno.runner.processes import limited_memory
from turno.runner.session import Sessions, collided
from turno.runner.shared_state import WorkerCallbacks
from turno.runner.transaction import BatchTransaction
from turno.settings import Settings
from turno.store.handler import attempts
from turno.store.handler.pipeline import Started
from turno.store.outage import unreachable
from turno.tracing import Spans

if TYPE_CHECKING:
    from turno.runner.inline import InlineContext

log = logging.getLogger(__name__)

T = TypeVar("T")
COLLISIONS = 4  # tries of an attempt after a deadlock, a serialization failure or a lock timeout
OTHER_RELEASE = timedelta(seconds=15)  # until a job with fields of another release is claimed again
SHARED_SECONDS = 0.02  # after which a transaction is committed, though more jobs could share it
LOST = "lost"  # the status of a job with a lost claim or an unconfirmed commit
# Errors of values that a handler chose, by Python or by the database.
REFUSED = (
    ArithmeticError,
    TypeError,
    ValueError,
    HandlerMisuse,
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
)


@dataclass(slots=True, kw_only=True)
class Executor:
    """Runs batches to their records; the process may end at any line without losing or doubling work.

    Capabilities read `settings`, which have no secrets.
    """

    registry: Registry
    sessions: Sessions
    worker: str
    callbacks: WorkerCallbacks
    chance: Callable[[], float] = random.random
    settings: Settings = field(default_factory=Settings)

    def execute(self, batch: Batch) -> dict[Claim, str]:
        """Run the jobs in order; returns the status of each ended job. The missing jobs were not begun."""
        shared = self.callbacks.shared
        with closing(BatchTransaction(batch, self.sessions, shared, self.worker)) as transaction:
            run = Run(self, transaction, batch)
            for number in range(len(batch)):
                if transaction.opened is None:
                    transaction.fetch(batch[number:])
                    self.callbacks.started()
                    crash_points.reach("started")
                if not shared.begins(number):
                    break
                run.job(number)
            run.commit()
            if lost := [claim for claim, status in run.ends.items() if status == LOST]:
                try:
                    transaction.retry_on_new_session(lambda session: attempts.lost(session, lost))
                except psycopg.Error as error:  # a database that is away is not waited for
                    log.warning("%d lost claims were not counted: %s", len(lost), str(error).partition("\n")[0])
        return run.ends


class Run:
    """One run of one batch; `ends` is the status of each job that is over."""

    def __init__(self, executor: Executor, transaction: BatchTransaction, batch: Batch) -> None:
        self.ends: dict[Claim, str] = {}
        self._executor = executor
        self._transaction = transaction
        self._batch = batch
        self._handler = executor.registry.handler(batch[0].type)
        self._kept: dict[int, Attempt] = {}  # by their place in the batch: the completed jobs that wait for the commit

    def job(self, number: int, tries: int = 1, *, following: bool = True) -> None:
        """Run one in the open transaction; record it, unless its end waits for the commit that it shares.

        With `following` the message that commits also fetches the jobs after it.
        """
        attempt = self._enter(number)
        if attempt is None:
            return
        before = self._transaction.commits
        outcome = attempt.run()
        self._executor.callbacks.tidy()
        if self._transaction.commits > before:  # by the job, together with the kept jobs
            self._completed()
        if (error := self._transaction.broken) is not None:  # which this job did not cause
            self._give_up(error)
            self._again(number, tries)
        elif isinstance(outcome, Completed):
            self._kept[number] = attempt
            self._executor.callbacks.shared.rests()
            if self._is_last(number):
                self.commit(self._batch[number + 1 :] if following else (), tries)
            else:
                self._part_users(number)
                crash_points.reach("member")
        else:
            self._alone(number, attempt, outcome, tries)

    def commit(self, following: Batch = (), tries: int = 1) -> None:
        """Commit the kept jobs, and fetch the following jobs."""
        if not self._kept:
            if self._transaction.opened is not None:
                self._transaction.rollback()
            return
        crash_points.reach("completing")
        try:
            self._transaction.finish(following)
        except (psycopg.Error, ClaimLost, HandlerMisuse) as error:
            if not self._transaction.kept:  # the kept jobs are committed: the error concerns the following jobs
                raise
            reply_lost = isinstance(error, psycopg.Error) and unreachable(error)
            self._give_up(error, tries if len(self._kept) == 1 else None, reply_lost=reply_lost)
            return
        crash_points.reach("completed")
        self._completed()

    def _is_last(self, number: int) -> bool:
        """Say whether no later job is to share this job's commit."""
        opened = self._transaction.opened
        return (
            self._handler.alone
            or self._handler.retry.max_attempts == 1  # never to be repeated for another job's sake
            or number + 1 == len(self._batch)
            or opened is None
            or monotonic() - opened > SHARED_SECONDS
            or self._batch[number + 1].job_id not in self._transaction.started_jobs
        )

    def _part_users(self, number: int) -> None:
        """Write the ends of the kept jobs before a job of another user begins, which may send any SQL."""
        this, following = (self._transaction.started_jobs[claim.job_id] for claim in self._batch[number : number + 2])
        if this.user_id != following.user_id:
            try:
                self._transaction.write_ends()
            except (psycopg.Error, ClaimLost, HandlerMisuse) as error:
                self._give_up(error)

    def _enter(self, number: int) -> "Attempt | None":
        transaction = self._transaction
        transaction.claim = claim = self._batch[number]
        if (started := transaction.enter(number)) is None:
            self._lose(claim, "its claim was lost before it was begun")
            return None
        context = AttemptContext(transaction, started, self._handler, self._executor)
        about: dict[str, str | int] = {"turno.tenant": claim.login.slug, "turno.type": claim.type}
        about |= {"turno.job": str(claim.job_id), "turno.attempt": claim.attempt}
        spans = tracing.tracer().attempt(started.trace_context, about)
        return Attempt(claim, self._handler, transaction, started, context, monotonic(), spans)

    def _alone(self, number: int, attempt: "Attempt", outcome: Reschedule | Cancel | Exception, tries: int) -> None:
        """Commit the jobs before a job that did not complete, then repeat or record this job."""
        shared = bool(self._kept)
        if (error := self._transaction.undo()) is not None:
            self._give_up(error)
        else:
            self.commit()
        if shared and isinstance(outcome, psycopg.IntegrityError):  # SET CONSTRAINTS of a job before may have caused it
            self._again(number, tries)
        else:
            self._settle(number, attempt, outcome, tries)

    def _settle(self, number: int, attempt: "Attempt", outcome: Reschedule | Cancel | Exception, tries: int) -> None:
        if isinstance(outcome, Exception) and collided(outcome) and tries < COLLISIONS:
            sleep(0.05 * tries * self._executor.chance())
            self._again(number, tries + 1)
            return
        self._transaction.claim = attempt.claim
        try:
            self._end(attempt, attempt.record(outcome, self._executor.chance()))
        except ClaimLost as error:
            self._lose(attempt.claim, str(error), attempt)
        self._executor.callbacks.shared.rests()

    def _again(self, number: int, tries: int) -> None:
        """Run a job in a separate transaction, to its record."""
        self._transaction.claim = self._batch[number]
        self._transaction.fetch(self._batch[number : number + 1])
        self.job(number, tries, following=False)
        self.commit(tries=tries)

    def _give_up(self, error: Exception, tries: int | None = None, *, reply_lost: bool = False) -> None:
        """Undo the kept jobs; their tokens decide which jobs run again, each in a separate transaction.

        With `tries` there is only one job, and the error is its own. A lost reply to the commit counts as an error of
        the jobs that still have their claims. A misuse may have committed the work of the jobs without a written end,
        so these fail for good.
        """
        text, _, _ = str(error).partition("\n")
        kept, self._kept = self._kept, {}
        unwritten = self._transaction.unwritten
        self._transaction.take_over()
        owned = self._transaction.retry_on_new_session(
            lambda session: attempts.still_claimed(session, [job.claim for job in kept.values()])
        )
        if tries is None:
            log.warning("a batch was not committed, its jobs go on alone: %s", text, extra=self._batch[0].log_fields)
        for number, attempt in kept.items():
            claim = attempt.claim
            if claim.job_id not in owned:
                self._lose(claim, f"its commit was not heard of, or its claim was lost: {text}", attempt)
            elif claim in unwritten and (tries is not None or reply_lost):
                self._settle(number, attempt, error, tries or 1)
            elif claim in unwritten and type(error) is HandlerMisuse:
                self._transaction.claim = claim
                self._end(attempt, attempt.fail(error))
            else:
                self._again(number, 1)

    def _completed(self) -> None:
        kept, self._kept = list(self._kept.values()), {}
        for attempt in kept:
            self._end(attempt, "completed", logged=len(kept) == 1)
        if len(kept) > 1:
            # One line for all: the database has each job's own record.
            fields = {"tenant": kept[0].claim.login.slug, "type": kept[0].claim.type, "jobs": len(kept)}
            fields["seconds"] = round(monotonic() - kept[0].began, 3)
            log.info("attempts ended: %d completed", len(kept), extra=fields)

    def _end(self, attempt: "Attempt", status: str, *, logged: bool = True) -> None:
        self.ends[attempt.claim] = status
        attempt.spans.end(status)
        if logged:
            seconds = round(monotonic() - attempt.began, 3)
            log.info("attempt ended: %s", status, extra=attempt.context.log_fields | {"seconds": seconds})

    def _lose(self, claim: Claim, why: str, attempt: "Attempt | None" = None) -> None:
        log.warning("%s", why, extra=claim.log_fields if attempt is None else attempt.context.log_fields)
        self.ends[claim] = LOST
        if attempt is not None:
            attempt.spans.end(LOST)
        self._executor.callbacks.shared.rests()


@dataclass(slots=True)
class Attempt:
    """Everything one attempt needs, from its call to its record."""

    claim: Claim
    handler: type[JobHandler[Any]]
    transaction: BatchTransaction
    started: Started
    context: AttemptContext
    began: float
    spans: Spans
    unknown_fields: InvalidPayload | None = None  # of the job's own payload

    def run(self) -> Outcome | Exception:
        """Return its outcome, or the error that was raised; the work of a completed job is kept in the transaction."""
        try:
            limit = limited_memory(megabytes) if (megabytes := self.handler.memory_mb) is not None else nullcontext()
            with closing(self.context), limit, self.spans.current():
                outcome = self._call()
            if isinstance(outcome, Completed):
                self.transaction.keep(outcome.result, self.began)
        except Exception as error:  # noqa: BLE001 - every error of a handler's is an outcome
            return error
        return outcome

    def _call(self) -> Outcome:
        """Call the handler of a job that is neither cancelled nor expired; its errors pass through."""
        if self.started.cancelled:
            return Cancel("cancelled on request")
        if self.started.expired:
            return Cancel(EXPIRED)
        try:
            payload = load_payload(self.handler, self.started.payload)
        except InvalidPayload as error:
            self.unknown_fields = error if error.of_unknown_fields else None
            raise
        return call_handler(self.handler(), self.context, payload)

    def record(self, outcome: Reschedule | Cancel | Exception, chance: float) -> str:
        """Record an outcome other than completed; returns the job's new status.

        An outcome that cannot be stored fails the job for good. Raises ClaimLost, and MemoryError, which ends the
        process.
        """
        if isinstance(outcome, Waits):
            return "pending"  # as it was committed
        if isinstance(outcome, ClaimLost | MemoryError):
            raise outcome
        try:
            return self._write(self._decision(outcome, chance))
        except REFUSED as error:
            return self.fail(InvalidResult(f"the outcome {type(outcome).__name__} cannot be stored: {error}"))

    def fail(self, error: Exception) -> str:
        """Record a final failure: the work may have been committed, so that it must not be repeated."""
        return self._write(Fail("failed for good", self.context.errors.describe(error)))

    def _decision(self, outcome: Reschedule | Cancel | Exception, chance: float) -> Decision:
        if outcome is self.unknown_fields and self._waits_for_another_release():
            outcome = Postponed(f"waits for the release that declares its payload: {outcome}", OTHER_RELEASE)
        return decide(
            outcome,
            self.context.errors.describe,
            errors=0 if self._resets_errors else self.started.errors,
            max_attempts=self.started.max_attempts,
            policy=self.handler.retry,
            now=lambda: self.transaction.retry_on_new_session(attempts.now),
            chance=chance,
        )

    def _waits_for_another_release(self) -> bool:
        """Say whether a worker of another release may know the fields; otherwise the job fails for good."""
        claim, digest = self.claim, payload_digest(self.handler)
        return self.transaction.retry_on_new_session(
            lambda session: attempts.declared_otherwise(session, claim, digest)
        )

    @property
    def _resets_errors(self) -> bool:
        """Say whether this attempt was healthy for so long that earlier errors no longer count."""
        return self.handler.retry.resets_errors(monotonic() - self.began)

    def _write(self, decision: Decision) -> str:
        claim, transaction = self.claim, self.transaction
        began, resets = transaction.at(self.began), self._resets_errors
        transaction.retry_on_new_session(lambda session: attempts.start(session, claim, transaction.worker, began))
        status = transaction.retry_on_new_session(
            lambda session: attempts.end(session, claim, decision, reset_errors=resets)
        )
        fields = self.context.log_fields
        if isinstance(decision, AwaitReview):
            log.warning("a person must decide: %s", decision.reason, extra=fields)
        elif isinstance(decision, Fail) and status == "failed":
            named = {"error_id": reference} if (reference := decision.error.get("reference")) else {}
            # Only the class of the error: its message may contain parts of the payload.
            log.error("job failed, %s: %s", decision.cause, decision.error["class"], extra=fields | named)
        elif isinstance(decision, Retry) and status == "pending":
            errors, policy = 1 + (0 if resets else self.started.errors), self.handler.retry
            log.log(
                logging.WARNING if errors <= policy.warnings else logging.ERROR,
                "attempt failed, tried again in %.0f s: %s",
                decision.delay,
                decision.error["class"],
                extra=fields | {"errors": errors},
            )
        return status


def call_handler(handler: JobHandler[Any], job: "AttemptContext | InlineContext", payload: Any) -> Outcome:
    """Return the outcome of a handler within its middleware, with its last items recorded; its errors pass through."""
    with handler.around(job):
        answer = _in_this_process(lambda: run_to_end(handler.handle(job, payload)))
    job.finish()
    return answer if isinstance(answer, Reschedule | Cancel) else Completed(serialise(answer))


def _in_this_process(handle: Callable[[], T]) -> T:
    """Call `handle`; if it forked and the copy returns, too, end the copy: it shares this process's sessions."""
    pid = os.getpid()
    try:
        return handle()
    finally:
        if os.getpid() != pid:
            os._exit(exit_codes.BROKEN)


def run_to_end(answer: T | Awaitable[T]) -> T:
    """Return the answer of a handler; an asynchronous handler runs here, and its tasks end with it."""
    return asyncio.run(_awaited(answer)) if isinstance(answer, Awaitable) else answer


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
