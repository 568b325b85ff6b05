"""Run a handler inside the caller's request, without a job: what `TURNO_ENABLE_BACKGROUND_JOBS=false` means."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar
from uuid import UUID, uuid4

import psycopg

from turno.errors import InvalidResult, PermanentFailure
from turno.jobs.handler import JobHandler
from turno.jobs.job import Status
from turno.jobs.outcome import Cancel, Reschedule
from turno.jobs.part import Part
from turno.jobs.payload import check_payload, restore_payload
from turno.runner.async_session import AsyncHandlerConnection
from turno.runner.awaiting import run_to_end
from turno.runner.capability_members import CapabilityMembers
from turno.runner.items import Counts
from turno.runner.result_json import serialise
from turno.runner.session import HandlerConnection, SessionSource, transient
from turno.settings import Settings
from turno.tenancy.identity.tenant import HandlerLogin, Tenant

T = TypeVar("T")


class InlineRunner:
    """Runs the service in the tenant's own session and in one transaction; there is no job and no retry."""

    def __init__(self, sessions: SessionSource, settings: Settings) -> None:
        self._sessions = sessions
        self._settings = settings

    def run(
        self, tenant: Tenant, handler: type[JobHandler[Any]], payload: dict[str, Any], user_id: str
    ) -> dict[str, Any] | None:
        """Return the handler's result, committed; whatever the handler raises passes through, rolled back."""
        login = HandlerLogin.of(tenant)
        connection = self._sessions.take(login)
        try:
            connection.execute("BEGIN")
            job = InlineContext(connection, tenant.slug, user_id, handler, self._settings)
            runner = handler()
            with runner.around(job):
                answer = run_to_end(runner.handle(job, restore_payload(handler, payload)))
            if isinstance(answer, Reschedule | Cancel):
                raise InvalidResult(f"{handler.type} returned {type(answer).__name__}, which needs background jobs")
            result: dict[str, Any] | None = json.loads(serialise(answer))
            psycopg.Connection.commit(connection)
            return result
        finally:
            self._sessions.give_back(login, connection)


class InlineContext(CapabilityMembers):
    """The context of work done inside a request; implements `turno.jobs.job_context.JobContext`."""

    attempt = 1
    correlation_id: str | None = None
    checkpoint_state: Any = None

    def __init__(
        self,
        connection: HandlerConnection,
        tenant: str,
        user_id: str,
        handler: type[JobHandler[Any]],
        settings: Settings,
    ) -> None:
        self.job_id: UUID = uuid4()
        self.tenant = tenant
        self.user_id = user_id
        self.connection = connection
        self.log = logging.LoggerAdapter(logging.getLogger("turno.handler"), {"tenant": tenant})
        self.is_for_users = handler.is_for_users
        self.settings = settings

    @property
    def async_connection(self) -> AsyncHandlerConnection:
        """The same session, for `await`."""
        return AsyncHandlerConnection(self.connection)

    @property
    def company(self) -> NoReturn:
        """Refuse: only workers are given the report login of a company."""
        raise PermanentFailure("a report of a company needs background jobs, which are switched off")

    def progress(self, done: int, total: int, message: str | None = None) -> None:
        """Do nothing: the caller is waiting."""

    def checkpoint(self, state: Any) -> None:
        """Do nothing: a request is one transaction."""

    def each(self, items: Iterable[T], *, key: Callable[[T], str] = str, chunk: int = 50) -> "InlineBatch[T]":
        """Run each item under a savepoint; an item's own error is counted and passed over."""
        del key, chunk
        return InlineBatch(self, list(items))

    def enqueue(self, job_type: Any, payload: Any = None, /, **options: Any) -> NoReturn:
        """Refuse: there is no job whose child it could be."""
        del job_type, payload, options
        raise PermanentFailure("a child job needs background jobs, which are switched off")

    def fan_out(
        self,
        job_type: type[JobHandler[Any]],
        payloads: Iterable[Any],
        *,
        stop_on_failure: bool = False,
        total: int | None = None,
    ) -> list[Part]:
        """Run the parts one after another; the error of one is that of the whole, which is one transaction."""
        del stop_on_failure, total

        parts = []
        for payload in payloads:
            checked = restore_payload(job_type, check_payload(job_type, payload))
            answer = run_to_end(job_type().handle(self, checked))
            result = None if isinstance(answer, Reschedule | Cancel) else json.loads(serialise(answer))
            parts.append(Part(self.job_id, Status.COMPLETED, result, None, done=0, failed=0))
        return parts

    def check_cancelled(self) -> None:
        """Do nothing: the caller cannot cancel."""


class InlineBatch(Generic[T]):
    """A batch without a ledger."""

    def __init__(self, job: InlineContext, items: list[T]) -> None:
        self._job = job
        self._items = items
        self.counts = Counts(total=len(items))

    def __iter__(self) -> "Iterator[InlineStep[T]]":
        for item in self._items:
            yield InlineStep(self._job, item, self.counts)

    def groups(self, size: int = 1) -> "Iterator[InlineGroup[T]]":
        """Yield each item as a group of its own: nobody counts statements here."""
        del size
        for item in self._items:
            yield InlineGroup(self._job, item, self.counts)


class InlineStep(Generic[T]):
    """One item under its savepoint."""

    def __init__(self, job: InlineContext, value: T, counts: Counts) -> None:
        self.value = value
        self.ref: str | None = None
        self._counts = counts
        self._job = job
        self._savepoint = job.connection.transaction()

    def __enter__(self) -> Self:
        self._savepoint.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._savepoint.__exit__(kind, error, trace)
        if error is None:
            self._counts.done += 1
            return True
        if not isinstance(error, Exception) or transient(error):
            return False
        if not self._job.is_for_users(error):
            from turno.jobs.error_record import line_of  # noqa: PLC0415 - loaded only when something failed

            # Its message may hold what the payload holds.
            self._job.log.error("an item failed unexpectedly: %s at %s", type(error).__name__, line_of(error))
        self._counts.failed += 1
        return True


class InlineGroup(Generic[T]):
    """One item as a group; an item that is refused by `fail` is undone, too."""

    def __init__(self, job: InlineContext, value: T, counts: Counts) -> None:
        self._step = InlineStep(job, value, counts)
        self._told: Exception | None = None

    def __enter__(self) -> "list[InlineGroup[T]]":
        self._step.__enter__()
        return [self]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None and self._told is not None:
            return self._step.__exit__(type(self._told), self._told, None)
        return self._step.__exit__(kind, error, trace)

    @property
    def value(self) -> T:
        """The item."""
        return self._step.value

    @property
    def ref(self) -> str | None:
        """What the work made of it."""
        return self._step.ref

    @ref.setter
    def ref(self, ref: str | None) -> None:
        self._step.ref = ref

    def fail(self, error: Exception) -> None:
        """Have the item count as failed."""
        self._told = error
