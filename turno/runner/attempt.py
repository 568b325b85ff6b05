"""An attempt of a job: the call of the handler, which may be asynchronous, the outcome, and the record."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any, NoReturn, TypeAlias, TypeVar

import psycopg

from turno.errors import ClaimLost, HandlerMisuse, InvalidResult, Waits
from turno.jobs.converter import load_payload
from turno.jobs.handler import JobHandler
from turno.jobs.job import Claim
from turno.jobs.json_text import serialise
from turno.jobs.outcome import (
    AwaitReview,
    Cancel,
    Completed,
    Decision,
    Fail,
    Outcome,
    Release,
    Reschedule,
    Retry,
    decide,
)
from turno.runner import exit_codes
from turno.runner.context import AttemptContext
from turno.runner.processes import limited_memory
from turno.runner.session import HandlerConnection
from turno.runner.transaction import BatchTransaction
from turno.store.handler import attempts
from turno.store.handler.pipeline import Started
from turno.tracing import Spans

log = logging.getLogger(__name__)

T = TypeVar("T")
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
# Yields the functions to call, and receives their results.
Steps: TypeAlias = Generator[Callable[[], Any], Any, Any]


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

    def run(self) -> Outcome | Exception:
        """Return its outcome, or the error that was raised; the work of a completed job is kept in the transaction."""
        try:
            limit = limited_memory(megabytes) if (megabytes := self.handler.memory_mb) is not None else nullcontext()
            with closing(self.context), limit, self.spans.current():
                outcome = self._obsolete() or self._call()
            if isinstance(outcome, Completed):
                self.transaction.keep(outcome.result, self.began)
        except Exception as error:  # noqa: BLE001 - every error of a handler's is an outcome
            return error
        return outcome

    def _obsolete(self) -> Cancel | None:
        """Return why the claimed job is not to run: it was cancelled or has expired."""
        if self.started.cancelled:
            return Cancel("cancelled on request")
        if self.started.expired:
            return Cancel("expired")
        return None

    def _call(self) -> Outcome:
        """Call the handler inside the open transaction; its errors pass through."""
        job, handler = self.context, self.handler()
        payload = load_payload(self.handler, self.started.payload)
        with handler.around(job):
            answer = _in_this_process(lambda: run_to_end(handler.handle(job, payload)))
        job.finish()
        if isinstance(answer, Reschedule | Cancel):
            return answer
        return Completed(serialise(answer))

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

    def over(self, status: str) -> None:
        """Take note that the attempt's record is committed as `status`, or that its claim was lost."""
        self.spans.end(status)

    def _decision(self, outcome: Reschedule | Cancel | Exception, chance: float) -> Decision:
        return decide(
            outcome,
            self.context.errors.describe,
            errors=0 if self._resets_errors else self.started.errors,
            max_attempts=self.started.max_attempts,
            policy=self.handler.retry,
            now=lambda: self.transaction.retry_on_new_session(attempts.now),
            chance=chance,
        )

    @property
    def _resets_errors(self) -> bool:
        """Say whether this attempt was healthy for so long that earlier errors no longer count."""
        return self.handler.retry.resets_errors(monotonic() - self.began)

    def _write(self, decision: Decision) -> str:
        began, worker = self.transaction.at(self.began), self.transaction.worker
        self.transaction.retry_on_new_session(lambda session: attempts.start(session, self.claim, worker, began))
        status = self.transaction.retry_on_new_session(lambda session: self._end(session, decision))
        if isinstance(decision, Fail) and status == "failed":
            named = {"error_id": reference} if (reference := decision.error.get("reference")) else {}
            fields = self.context.log_fields | named
            # Only the class of the error: its message may contain parts of the payload.
            log.error("job failed, %s: %s", decision.cause, decision.error["class"], extra=fields)
        return status

    def _end(self, session: HandlerConnection, decision: Decision) -> str:
        claim = self.claim
        match decision:
            case Retry(delay, error):
                pause = timedelta(seconds=delay)
                return attempts.fail(
                    session, claim, "an attempt failed", error, pause, reset_errors=self._resets_errors
                )
            case Fail(cause, error):
                return attempts.fail(session, claim, cause, error, None, reset_errors=self._resets_errors)
            case Release(run_at, outcome, reason):
                return attempts.release(session, claim, outcome, reason, run_at)
            case Cancel(reason):
                return attempts.cancel(session, claim, reason)
            case AwaitReview(doubt, reason, error):
                log.warning("a person must decide: %s", reason, extra=self.context.log_fields)
                return attempts.await_review(session, claim, doubt, reason, error)


def _in_this_process(handle: Callable[[], T]) -> T:
    """Call `handle`; if it forked and the copy returns, too, end the copy: it shares this process's sessions."""
    here = os.getpid()
    try:
        return handle()
    finally:
        if os.getpid() != here:
            os._exit(exit_codes.BROKEN)


def run_to_end(answer: T | Awaitable[T]) -> T:
    """Return the answer of a handler; an asynchronous handler runs here, and its tasks end with it."""
    return asyncio.run(_awaited(answer)) if isinstance(answer, Awaitable) else answer


def drive(steps: Steps) -> Any:
    """Make the calls that the steps yield, and return their result; within an event loop, return an awaitable."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        result = _result(steps, _refused)
        try:
            result.send(None)  # to its end: it waits for nothing
        except StopIteration as end:
            return end.value
    return _result(steps, _awaited)


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer


async def _refused(answer: Awaitable[object]) -> NoReturn:
    if isinstance(answer, Coroutine):
        answer.close()
    raise HandlerMisuse("job.once takes an asynchronous function only where `handle` is asynchronous")


async def _result(steps: Steps, wait: Callable[[Awaitable[Any]], Awaitable[Any]]) -> Any:
    try:
        call = next(steps)
        while True:
            try:
                answer = call()
                if isinstance(answer, Awaitable):
                    answer = await wait(answer)
            except BaseException as error:  # noqa: BLE001 - it is raised again where the step waits
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as end:
        return end.value
