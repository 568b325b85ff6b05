"""The context of an attempt: the session, the progress, the items and the children of its job."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from json import dumps, loads
from time import monotonic
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

import psycopg

from turno.errors import CancelRequested, HandBack, HandlerMisuse, PermanentFailure
from turno.jobs.converter import check_payload
from turno.jobs.error_record import AttemptErrors
from turno.jobs.handler import JobHandler
from turno.jobs.job import PriorityName
from turno.jobs.job_context import JobContext
from turno.jobs.new_job import Enqueued, NewJob, UniqueFor, payload_of
from turno.runner.exit_codes import TIME_LIMIT
from turno.runner.items import AttemptBatch, LedgerBatch
from turno.runner.session import AsyncHandlerConnection, HandlerConnection, Sessions
from turno.runner.transaction import BatchTransaction
from turno.store.handler import attempts
from turno.store.handler.pipeline import Started
from turno.tenancy.identity.foreign_functions import foreign_functions
from turno.tenancy.identity.tenant import CompanyLogin

if TYPE_CHECKING:
    from turno.runner.executor import Executor

T = TypeVar("T")
# The functions of a policy would run with the rights on all branches: PostgreSQL refuses a table with policies instead.
NO_POLICIES: LiteralString = "SET row_security = off"
# All branches as of one moment; the role has no right to write.
SNAPSHOT: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
PROGRESS_EVERY = 0.25  # seconds between two progress writes, and between two checks for a cancellation


def attempt_of(job: JobContext, work: str) -> "AttemptContext":
    """Return a context that is of an attempt; raises PermanentFailure within a request, which has no job."""
    if not isinstance(job, AttemptContext):
        raise PermanentFailure(f"{work} needs background jobs, which are switched off")
    return job


class CompanyReading:
    """The branches of a consolidated report's company, over a session of the company's report login.

    The session ends with the attempt: another company's job may come next to this process.
    """

    def __init__(self, company: CompanyLogin, sessions: Sessions) -> None:
        self._company = company
        self._sessions = sessions
        self._session: HandlerConnection | None = None

    @property
    def branches(self) -> Mapping[str, str]:
        """The branches' schemas, by slug."""
        return self._company.branches

    @property
    def connection(self) -> HandlerConnection:
        """The session, opened at the first use; raises LoginRefused, or HandlerMisuse where a view calls a function."""
        if self._session is None:
            session = self._sessions.take(self._company.login)
            try:
                session.execute(NO_POLICIES)
                self._refuse_calls(session)
                session.execute(SNAPSHOT)
            except (psycopg.Error, HandlerMisuse):
                psycopg.Connection.close(session)
                raise
            self._session = session
        return self._session

    def _refuse_calls(self, session: HandlerConnection) -> None:
        """Refuse a view of an adopted schema if its function would run with the rights on all branches."""
        for kind, name, function in foreign_functions(session, list(self.branches.values())):
            if kind == "view":
                raise HandlerMisuse(
                    f"the view {name} calls {function}, which would run with the report's rights on all branches:"
                    " remove the call, or give the function to a superuser who trusts it"
                )

    def close(self) -> None:
        """End the session, if there was one; the next use sees a later moment."""
        if self._session is not None:
            psycopg.Connection.close(self._session)
            self._session = None


class AttemptContext(JobContext):
    """One attempt's view of its job."""

    def __init__(
        self, transaction: BatchTransaction, started: Started, handler: type[JobHandler[Any]], executor: "Executor"
    ) -> None:
        claim = transaction.claim
        self.log_fields = claim.log_fields | started.log_fields | {"worker": transaction.worker}
        self.errors = AttemptErrors(claim.job_id, claim.attempt, handler, self.log_fields)
        self.job_id = claim.job_id
        self.tenant = claim.login.slug
        self.parent_schema = claim.login.parent_schema
        self.user_id = started.user_id
        self.attempt = started.attempt
        self.correlation_id = started.correlation_id
        self.checkpoint_state = started.checkpoint
        self.log = logging.LoggerAdapter(logging.getLogger("turno.handler"), self.log_fields)
        self.transaction = transaction
        self.registry = executor.registry
        self.settings = executor.settings
        self._callbacks = executor.callbacks
        self._sessions = executor.sessions
        self._company = CompanyReading(claim.company, executor.sessions) if claim.company is not None else None
        self.claim = claim
        self._over = False
        self._second: HandlerConnection | None = None
        self._for_await: AsyncHandlerConnection | None = None
        self._next_progress = 0.0
        self._next_look = 0.0
        self._batch: LedgerBatch[Any] | None = None
        self.used: set[str] = set()  # the members that a job may use once

    @property
    def connection(self) -> HandlerConnection:
        """The tenant's session, inside the job's transaction."""
        if self._over:
            raise HandlerMisuse("this context's job has ended; use that of the present job")
        return self.transaction.connection

    @property
    def async_connection(self) -> AsyncHandlerConnection:
        """The same session, for `await`."""
        session = self.connection
        if self._for_await is None or self._for_await.session is not session:
            self._for_await = AsyncHandlerConnection(session)
        return self._for_await

    @property
    def company(self) -> CompanyReading:
        """Access of a consolidated report to the branches of its company."""
        if self._company is None:
            raise HandlerMisuse("job.company is closed to this handler: set `reads_company = True` in its class")
        return self._company

    def progress(self, done: int, total: int, message: str | None = None) -> None:
        """Show how far the job is; at most four times a second, the last one always."""
        self.stop_if_overdue()
        if monotonic() < self._next_progress and done < total:
            return
        self._next_progress = monotonic() + PROGRESS_EVERY
        if self._batch is not None:
            done, total = 0, 0  # the ledger counts, so only the message is written
        try:
            cancel_requested = attempts.progress(self._second_session(), self.claim, done, total, message)
        except psycopg.errors.LockNotAvailable:
            return
        self._callbacks.progressed()
        if cancel_requested:
            raise CancelRequested("a user cancelled this job")

    def checkpoint(self, state: Any) -> None:
        """Commit the work so far together with `state`, and stop here if the worker must."""
        if self._batch is not None and self._batch.open_group is not None:
            raise HandlerMisuse("a checkpoint within an item of job.each would commit half of it; set it between two")
        self.transaction.alone()
        self.finish()
        self.transaction.prove()
        cancel_requested = attempts.checkpoint(self.connection, self.claim, state)
        self.transaction.commit(go_on=True)
        self.checkpoint_state = loads(dumps(state))
        self.safe_point(cancel_requested=cancel_requested)

    def each(self, items: Iterable[T], *, key: Callable[[T], str] = str, chunk: int = 50) -> LedgerBatch[T]:
        """Run a batch through the ledger; see LedgerBatch. A job has one ledger, so it has one batch."""
        if self._batch is not None:
            raise HandlerMisuse("job.each was used twice; a job has one ledger, so give it all its items at once")
        self.transaction.alone()
        self._batch = batch = AttemptBatch(self, list(items), key=key, chunk=chunk)
        return batch

    @contextmanager
    def between_transactions(self) -> Iterator[None]:
        """Commit the work so far, and open the next transaction, and the item's savepoint, after the block."""
        group = self._batch.open_group if self._batch is not None else None
        if group is not None:
            group.suspend()
        self.finish()
        cancel_requested = attempts.hold(self.connection, self.claim)
        self.transaction.commit()
        try:
            self.safe_point(cancel_requested=cancel_requested)
            yield
        finally:
            self.transaction.begin()
            if group is not None:
                group.set_savepoint()

    def enqueue(
        self,
        job_type: str | type[JobHandler[Any]],
        payload: Any = None,
        /,
        *,
        run_at: datetime | None = None,
        run_in: timedelta | float | None = None,
        priority: PriorityName = "normal",
        key: str | None = None,
        unique_for: UniqueFor = None,
        concurrency_key: str | None = None,
        queue: str | None = None,
        **fields: Any,
    ) -> Enqueued:
        """Enqueue a job of the same user, committed with the work of this job."""
        handler = job_type if isinstance(job_type, type) else self.registry.handler(job_type)
        new = NewJob.of(
            handler,
            check_payload(handler, payload_of(payload, fields)),
            run_at=run_at,
            run_in=run_in,
            priority=priority,
            idempotency_key=key,
            unique_for=unique_for,
            concurrency_key=concurrency_key,
            queue=queue,
        )
        return attempts.enqueue_child(self.connection, self.claim, new)

    def check_cancelled(self) -> None:
        """Raise CancelRequested if a user cancelled this job."""
        self.stop_if_overdue()
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + PROGRESS_EVERY
            self.safe_point(cancel_requested=attempts.cancel_requested(self.connection, self.claim), drain=False)

    def safe_point(self, *, cancel_requested: bool, drain: bool = True) -> None:
        """Stop here if a user cancelled the job, or if the worker is stopping and the work is committed."""
        self.stop_if_overdue()
        if drain:
            self._callbacks.progressed()
        if cancel_requested:
            raise CancelRequested("a user cancelled this job")
        if drain and self._callbacks.shared.requested:
            raise HandBack("the worker is stopping; another worker continues the job")

    def stop_if_overdue(self) -> None:
        """End this process if its time limit has passed: the parent records the cause."""
        if self._callbacks.shared.overdue:
            os._exit(TIME_LIMIT)

    def finish(self) -> None:
        """Record the items since the last chunk of a batch, so that they commit with the job's record."""
        if self._batch is not None:
            self._batch.record()

    def close(self) -> None:
        """Give back the second session, and end the company's, if there were any."""
        self._over = True
        if self._company is not None:
            self._company.close()
        if self._second is not None:
            self._sessions.give_back(self.claim.login, self._second)

    def _second_session(self) -> HandlerConnection:
        if self._second is None:
            self._second = self._sessions.take(self.claim.login)
            self._second.execute("SET lock_timeout = '500ms'")
        return self._second
