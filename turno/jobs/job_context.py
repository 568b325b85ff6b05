"""The interface of a handler to its running job, with its values; `turno.runner` implements it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turno.capability import member
from turno.jobs.job import Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from io import BufferedIOBase, BufferedReader
    from logging import LoggerAdapter
    from uuid import UUID

    import psycopg

    from turno.jobs.handler import JobHandler
    from turno.jobs.job import PriorityName
    from turno.jobs.new_job import Enqueued, Published, UniqueFor
    from turno.runner.context import CompanyReading
    from turno.runner.items import LedgerBatch
    from turno.settings import Settings


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect; `outside_key` is the same in every attempt, so that the receiver can refuse a second use.

    `calls` counts this and the earlier calls, `since` is the time of the permission for the latest call, `age` the
    seconds since then by the database's clock.
    """

    key: str
    outside_key: UUID
    calls: int
    since: datetime
    age: float


@dataclass(frozen=True, slots=True)
class Done:
    """The effect happened; `result` is the result of its call, plain JSON."""

    result: Any


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect did not happen, and the sent request can no longer cause it."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The receiver does not know; a person must decide. `why` is shown to that person."""

    why: str


Finding = Done | Absent | Unknown


@dataclass(frozen=True, slots=True)
class Part:
    """One part; `done` and `failed` count the items of its ledger, `error` is the error of a failed part."""

    job_id: UUID
    status: Status
    result: dict[str, Any] | None
    error: str | None
    done: int
    failed: int

    @property
    def completed(self) -> bool:
        """Whether the part ran to its end, even with failed items."""
        return self.status is Status.COMPLETED


T = TypeVar("T")


class KeptFile(Protocol):
    """A file of the tenant, without its content."""

    @property
    def id(self) -> UUID:
        """The id of the file."""

    @property
    def name(self) -> str:
        """The name for people; no file is opened by it."""

    @property
    def media_type(self) -> str:
        """The media type of the name, such as text/csv."""

    @property
    def size(self) -> int:
        """The size in bytes."""


class Files(Protocol):
    """The files of the tenant, as streams: a process never holds a whole file."""

    def open(self, file_id: UUID) -> AbstractContextManager[tuple[KeptFile, BufferedReader]]:
        """Open an upload of the job's user, which the database then keeps as long as the job.

        Raises an error that ends the job for good if the upload was removed or never existed.
        """

    def create(self, name: str, media_type: str | None = None) -> AbstractContextManager[BufferedIOBase]:
        """Open a stream into a new file of at most 64 MB, which is kept once the job's work is committed."""


class JobContext(Protocol):
    """The running job, for its handler.

    Capabilities implement `append`, `files`, `once`, `publish` and `fan_out`, each loaded at its first use.
    """

    job_id: UUID
    tenant: str
    parent_schema: str | None  # with the business data of the tenant's parent, which the handler may read
    user_id: str
    attempt: int
    correlation_id: str | None
    checkpoint_state: Any  # the state of the last `checkpoint` of an earlier attempt, or None
    log: LoggerAdapter[Any]
    settings: Settings  # of the process, without secrets

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The tenant's session, inside the job's transaction; the executor commits it."""

    @property
    def async_connection(self) -> psycopg.AsyncConnection[Any]:
        """The same session in the same transaction, for a handler with an asynchronous `handle`."""

    @property
    def company(self) -> CompanyReading:
        """The branches for a consolidated report; only for a handler class with `reads_company = True`."""

    @property
    def files(self) -> Files:
        """The tenant's files: the uploads for this job, and its files for download."""
        files: Files = member("files", self.settings.capabilities)(self)
        return files

    def progress(self, done: int, total: int, message: str | None = None) -> None:
        """Show how far the job is, at once and outside its transaction; never goes back."""

    def checkpoint(self, state: Any) -> None:
        """Commit the work so far together with `state`; a later attempt starts from it."""

    def each(self, items: Iterable[T], *, key: Callable[[T], str] = str, chunk: int = 50) -> LedgerBatch[T]:
        """Run a batch through the ledger: an item's own error is recorded and does not stop the rest."""

    def once(
        self,
        key: str,
        call: Callable[[Effect], Any],
        reconcile: Callable[[Effect], Finding | Awaitable[Finding]] | None = None,
        *,
        idempotent: bool = False,
    ) -> Any:
        """Cause an outside effect once in this tenant, and return the result of its call, plain JSON.

        Commits the work so far. `key` names the effect, within the tenant and for ever. After a call with an unknown
        end, `reconcile` looks it up; `idempotent` declares that the outside system refuses a second use of
        `Effect.outside_key`, or repeats its first answer. A handler with an asynchronous `handle` awaits it, and may
        give it asynchronous functions.
        """
        return member("once", self.settings.capabilities)(self, key, call, reconcile, idempotent=idempotent)

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
        """Enqueue a job for the user of this job, with the commit of this job's work; as `turno.enqueue` does."""

    def publish(self, event: str, data: Any = None, /, *, key: str | None = None, **fields: Any) -> Published:
        """Publish an event, committed with the work of this job; as `turno.publish` does."""
        publish = member("publish", self.settings.capabilities)
        published: Published = publish(self, event, data, fields, key=key)
        return published

    def fan_out(
        self,
        job_type: type[JobHandler[Any]],
        payloads: Iterable[Any],
        *,
        stop_on_failure: bool = False,
        total: int | None = None,
    ) -> list[Part]:
        """Split this job into parts, one for each payload, and return how they ended, in that order.

        Commits the work so far, and ends the attempt; `handle` is called again when all parts have ended. Parts of a
        type run like any of its jobs, for the same user. With `stop_on_failure` the first part that fails or is
        cancelled cancels the remaining parts, and PartsFailed is raised. `total` is how many items they have in all:
        their progress then adds up to this job's. Cancelling this job cancels its parts; a retry does only the undone
        work.
        """
        split = member("fan_out", self.settings.capabilities)
        parts: list[Part] = split(self, job_type, payloads, stops=stop_on_failure, total=total)
        return parts

    def append(self, value: Any) -> None:
        """Add a JSON value to the values of this job, which readers see before its end.

        It is part of the work: committed by the next `checkpoint`, chunk of `each` or end, and undone with the work of
        a failed attempt.
        """
        member("append", self.settings.capabilities)(self, value)

    def check_cancelled(self) -> None:
        """Raise CancelRequested if a user or operator cancelled this job."""
