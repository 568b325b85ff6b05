"""The interface of a handler to its running job, with its values; `turno.runner` implements it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turno.jobs.job import Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from io import BufferedIOBase, BufferedReader
    from logging import LoggerAdapter
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    import psycopg

    from turno.jobs.handler import JobHandler
    from turno.jobs.job import PriorityName
    from turno.jobs.new_job import Enqueued, Published, UniqueFor


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
T_co = TypeVar("T_co", covariant=True)


class Item(Protocol[T]):
    """One item of a batch: `with` runs it in a savepoint and keeps its error in the ledger."""

    value: T
    ref: str | None  # the result of its work, such as the number of an invoice; kept in the ledger

    def __enter__(self) -> Self:
        """Open the item's savepoint."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Release the savepoint, or roll back to it; say whether the error was kept."""


class GroupedItem(Protocol[T_co]):
    """One item of a group that is written together."""

    @property
    def value(self) -> T_co:
        """The item."""

    ref: str | None  # as an Item's

    def fail(self, error: Exception) -> None:
        """Record this item as failed while the rest of the group continues; write no work for it."""


class BatchCounts(Protocol):
    """The counts of a batch, in items; `skipped` were done by the job that this job continues."""

    @property
    def done(self) -> int:
        """Items with work that is committed, or will be with the present chunk."""

    @property
    def failed(self) -> int:
        """Items with an error in the ledger."""

    @property
    def skipped(self) -> int:
        """Items that an earlier job did."""

    @property
    def total(self) -> int:
        """Items of this job, without the skipped ones."""


class Batch(Protocol[T]):
    """The items still to do: `for step in batch: with step as item: ...`."""

    @property
    def counts(self) -> BatchCounts:
        """The present counts of the batch."""

    def __iter__(self) -> Iterator[Item[T]]:
        """Yield each item without an entry in the ledger."""

    def groups(self, size: int = 50) -> Iterator[AbstractContextManager[Sequence[GroupedItem[T]]]]:
        """Yield these items in groups of `size`, at most 500, for `with group as items:` to write in few statements.

        A group is undone if its block raises, and its items are yielded again one by one.
        """


class Company(Protocol):
    """The branches of a job's company, as one moment shows them; read, and never written."""

    @property
    def branches(self) -> Mapping[str, str]:
        """The branches' schemas, by slug."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """A session that reads the business tables of these schemas, and of no other."""


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
    """The running job, for its handler."""

    job_id: UUID
    tenant: str
    user_id: str
    attempt: int
    correlation_id: str | None
    checkpoint_state: Any  # the state of the last `checkpoint` of an earlier attempt, or None
    log: LoggerAdapter[Any]

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The tenant's session, inside the job's transaction; the executor commits it."""

    @property
    def async_connection(self) -> psycopg.AsyncConnection[Any]:
        """The same session in the same transaction, for a handler with an asynchronous `handle`."""

    @property
    def company(self) -> Company:
        """The branches for a consolidated report; only for a handler class with `reads_company = True`."""

    @property
    def files(self) -> Files:
        """The tenant's files: the uploads for this job, and its files for download."""

    def progress(self, done: int, total: int, message: str | None = None) -> None:
        """Show how far the job is, at once and outside its transaction; never goes back."""

    def checkpoint(self, state: Any) -> None:
        """Commit the work so far together with `state`; a later attempt starts from it."""

    def each(self, items: Iterable[T], *, key: Callable[[T], str] = str, chunk: int = 50) -> Batch[T]:
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

    def check_cancelled(self) -> None:
        """Raise CancelRequested if a user or operator cancelled this job."""
