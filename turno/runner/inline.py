"""Run a handler inside the caller's request, without a job (`TURNO_ENABLE_BACKGROUND_JOBS=false`)."""

import json
import logging
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar
from uuid import UUID, uuid4

import psycopg

from turno.errors import InvalidResult, PermanentFailure
from turno.jobs.converter import restore_payload
from turno.jobs.error_record import AttemptErrors
from turno.jobs.handler import JobHandler
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import Completed
from turno.runner.executor import call_handler
from turno.runner.items import LedgerBatch
from turno.runner.session import AsyncHandlerConnection, HandlerConnection
from turno.settings import Settings
from turno.tenancy.identity.tenant import HandlerLogin, Tenant

T = TypeVar("T")


class InlineRunner:
    """Runs a handler in one transaction of a separate session of its tenant; there is no job and no retry."""

    def __init__(self, log_in: Callable[[HandlerLogin], HandlerConnection], settings: Settings) -> None:
        self._log_in = log_in
        self._settings = settings

    def run(
        self, tenant: Tenant, handler: type[JobHandler[Any]], payload: dict[str, Any], user_id: str
    ) -> dict[str, Any] | None:
        """Return the handler's result, committed; an error of the handler passes through, and its work is undone."""
        connection = self._log_in(HandlerLogin.of(tenant))
        try:
            connection.execute("BEGIN")
            job = InlineContext(connection, tenant, user_id, handler, self._settings)
            outcome = call_handler(handler(), job, restore_payload(handler, payload))
            if not isinstance(outcome, Completed):
                raise InvalidResult(f"{handler.type} returned {type(outcome).__name__}, which needs background jobs")
            result: dict[str, Any] | None = json.loads(outcome.result)
            psycopg.Connection.commit(connection)
            return result
        finally:
            psycopg.Connection.close(connection)


class InlineContext(JobContext):
    """The context of work done inside a request."""

    attempt = 1
    correlation_id: str | None = None
    checkpoint_state: Any = None

    def __init__(
        self,
        connection: HandlerConnection,
        tenant: Tenant,
        user_id: str,
        handler: type[JobHandler[Any]],
        settings: Settings,
    ) -> None:
        self.job_id: UUID = uuid4()
        self.tenant = tenant.slug
        self.parent_schema = tenant.parent_schema
        self.user_id = user_id
        self._connection = connection
        self.log = logging.LoggerAdapter(logging.getLogger("turno.handler"), {"tenant": tenant.slug})
        self.settings = settings
        self.errors = AttemptErrors(self.job_id, self.attempt, handler, {"tenant": tenant.slug})
        self._batches: list[LedgerBatch[Any]] = []

    def finish(self) -> None:
        """Count the items that ran after the last chunk; raises HandlerMisuse for an item that was passed over."""
        for batch in self._batches:
            batch.record()

    @property
    def connection(self) -> HandlerConnection:
        """The session of the request's work, in its transaction."""
        return self._connection

    @property
    def async_connection(self) -> AsyncHandlerConnection:
        """The same session, for `await`."""
        return AsyncHandlerConnection(self._connection)

    @property
    def company(self) -> NoReturn:
        """Refuse: only workers are given the report login of a company."""
        raise PermanentFailure("a report of a company needs background jobs, which are switched off")

    def progress(self, done: int, total: int, message: str | None = None) -> None:
        """Do nothing: the caller is waiting."""

    def checkpoint(self, state: Any) -> None:
        """Do nothing: a request is one transaction."""

    def each(self, items: Iterable[T], *, key: Callable[[T], str] = str, chunk: int = 50) -> LedgerBatch[T]:
        """Run each item under a savepoint; the error of an item is counted and does not stop the rest."""
        batch = LedgerBatch(self, list(items), key=key, chunk=chunk)
        self._batches.append(batch)
        return batch

    def enqueue(self, job_type: Any, payload: Any = None, /, **options: Any) -> NoReturn:
        """Refuse: there is no parent job."""
        del job_type, payload, options
        raise PermanentFailure("a child job needs background jobs, which are switched off")

    def check_cancelled(self) -> None:
        """Do nothing: the caller cannot cancel."""
