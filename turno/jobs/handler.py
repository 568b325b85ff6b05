"""The contract between Turno and the code of one job type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from turno.errors import HandlerMisuse, UserError
from turno.jobs.class_checks import problems_of_class
from turno.jobs.retry import RetryPolicy

if TYPE_CHECKING:
    import builtins
    from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from io import BufferedIOBase, BufferedReader
    from logging import LoggerAdapter
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    import psycopg

    from turno.files.kept_file import KeptFile
    from turno.jobs.effect import Effect, Finding
    from turno.jobs.enqueue_options import Enqueued, Published
    from turno.jobs.job import Priority
    from turno.jobs.outcome import Cancel, Reschedule
    from turno.jobs.type_words import TypeWords

    Answer: TypeAlias = dict[str, Any] | Reschedule | Cancel


P = TypeVar("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Item(Protocol[T]):
    """One item of a batch: `with` runs it in a savepoint and keeps its error in the ledger."""

    value: T
    ref: str | None  # what the work made of it, such as an invoice's number; kept in the ledger

    def __enter__(self) -> Self:
        """Open the item's savepoint."""

    def __exit__(
        self, kind: builtins.type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Release the savepoint, or roll back to it; say whether the error was kept."""


class GroupedItem(Protocol[T_co]):
    """One item of a group that is written together."""

    @property
    def value(self) -> T_co:
        """The item."""

    ref: str | None  # as an Item's

    def fail(self, error: Exception) -> None:
        """Enter this item as failed while the rest of the group goes on; write nothing of it."""


class BatchCounts(Protocol):
    """How a batch stands, in items; `skipped` were done by the job that this one continues."""

    @property
    def done(self) -> int:
        """Items whose work is committed or about to be."""

    @property
    def failed(self) -> int:
        """Items whose error is in the ledger."""

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
        """How the batch stands now."""

    def __iter__(self) -> Iterator[Item[T]]:
        """Yield each item that the ledger does not know yet."""

    def groups(self, size: int = 50) -> Iterator[AbstractContextManager[Sequence[GroupedItem[T]]]]:
        """Yield those items `size` at a time, at most 500, for `with group as items:` to write in few statements.

        A group whose block raises is undone, and comes again with each item by itself.
        """


class Company(Protocol):
    """The branches of a job's company, as one moment shows them; read, and never written."""

    @property
    def branches(self) -> Mapping[str, str]:
        """The branches' schemas, by slug."""

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """A session that reads the business tables of these schemas, and of no other."""


class Files(Protocol):
    """The tenant's files as a job sees them, as streams: no file is whole in memory."""

    def open(self, file_id: UUID) -> AbstractContextManager[tuple[KeptFile, BufferedReader]]:
        """Lend an upload of the job's user to read and to seek in; it is kept as long as the job from now on.

        Raises an error that ends the job for good if there is none, or none any more.
        """

    def create(self, name: str, media_type: str | None = None) -> AbstractContextManager[BufferedIOBase]:
        """Lend a stream into a new file of at most 64 MB, which is there once the job's work is committed."""


class JobContext(Protocol):
    """What a handler may use while its job runs."""

    job_id: UUID
    tenant: str
    user_id: str
    attempt: int
    correlation_id: str | None
    checkpoint_state: Any  # what the last attempt gave to `checkpoint`, or None
    log: LoggerAdapter[Any]

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The tenant's session, inside the job's transaction; the executor commits it."""

    @property
    def async_connection(self) -> psycopg.AsyncConnection[Any]:
        """The same session in the same transaction, for a handler whose `handle` is asynchronous."""

    @property
    def company(self) -> Company:
        """What a consolidated report reads; only for a handler whose class says `reads_company = True`."""

    @property
    def files(self) -> Files:
        """The tenant's files: what was uploaded for this job, and what it writes for people to download."""

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
        """Have an outside effect happen once in this tenant, and return what its call returned, plain JSON.

        Commits the work so far. `key` names the effect, within the tenant and for ever. After a call whose end nobody
        knows, `reconcile` looks it up; `idempotent` says that the other side refuses a second use of
        `Effect.outside_key`, or answers it as it did the first. A handler whose `handle` is asynchronous awaits it, and
        may give it asynchronous functions.
        """

    def enqueue(
        self,
        job_type: str | builtins.type[JobHandler[Any]],
        payload: Any = None,
        /,
        *,
        run_at: datetime | None = None,
        priority: Priority | str = "normal",
        key: str | None = None,
        unique_for: timedelta | float | str | None = None,
        concurrency_key: str | None = None,
        queue: str | None = None,
        **fields: Any,
    ) -> Enqueued:
        """Enqueue a job of this one's user, which is there once this one's work commits; as `turno.enqueue` does."""

    def publish(self, event: str, data: Any = None, /, *, key: str | None = None, **fields: Any) -> Published:
        """Publish an event, which is there once this job's work commits; as `turno.publish` does."""

    def check_cancelled(self) -> None:
        """Raise CancelRequested if somebody asked this job to stop."""


Middleware = Callable[[JobContext], AbstractContextManager[object]]


class JobHandler(ABC, Generic[P]):
    """Code for one job type; wraps an existing service that knows nothing of jobs.

    `queue` is "hot" for what somebody waits for, "cold" for what takes minutes, or any other; a worker may serve some.
    `timeout` is seconds an attempt may take, `longest_transaction` seconds one of its transactions may stay open,
    `memory_mb` what it may allocate beyond what the worker uses already. Payload types are frozen dataclasses. Short
    jobs of a tenant share a transaction, each under a savepoint; with `alone` each has its own: for what has an effect
    outside that must not be repeated for another job's sake. A submission may choose one of `other_queues` instead. At
    most `key_limit` of a tenant's jobs with one `concurrency_key` run at once, in the whole fleet, and with `key_rate`,
    (jobs, seconds), at most so many begin in so long: see docs/writing-handlers.md. A job is made for each event that
    it `subscribes` to, with the data as payload, and with `subscribes_from` "beginning" for each from before, too.
    `reads_company` is for reports over
    all branches of a company: its jobs have `job.company`. `user_errors` are the service's own exceptions with messages
    for users; of any other but a UserError they see a reference only.
    `middleware` are context managers around each attempt, the first outermost, inside its transaction.
    `words` is what the pages say of the type in each language, see docs/pages.md. `redact` names fields of payload and
    result, such as ("tax_id",), that operators who are no admins do not read.
    """

    type: ClassVar[str]
    version: ClassVar[int] = 1
    queue: ClassVar[str] = "hot"
    other_queues: ClassVar[tuple[str, ...]] = ()
    key_limit: ClassVar[int | None] = None
    key_rate: ClassVar[tuple[int, float] | None] = None
    subscribes: ClassVar[tuple[str, ...]] = ()
    subscribes_from: ClassVar[Literal["now", "beginning"]] = "now"
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    timeout: ClassVar[float] = 600.0
    longest_transaction: ClassVar[float | None] = None
    memory_mb: ClassVar[int | None] = None
    alone: ClassVar[bool] = False
    reads_company: ClassVar[bool] = False
    user_errors: ClassVar[tuple[builtins.type[Exception], ...]] = ()
    middleware: ClassVar[tuple[Middleware, ...]] = ()
    words: ClassVar[TypeWords] = {}
    redact: ClassVar[tuple[str, ...]] = ()
    payload_type: ClassVar[builtins.type[Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for problem in problems_of_class(cls):
            raise ValueError(f"{cls.__name__}.{problem}")
        for origin in getattr(cls, "__orig_bases__", ()):
            for argument in get_args(origin):
                if isinstance(argument, type):
                    cls.payload_type = argument

    @classmethod
    def using(cls, *services: Any, **named: Any) -> builtins.type[Self]:
        """Return this handler for a list of handlers, constructed with these services at each attempt."""
        made: dict[str, Any] = {"__init__": lambda self: cls.__init__(self, *services, **named)}
        made |= {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        return type(cls.__name__, (cls,), made)

    @classmethod
    def is_for_users(cls, error: BaseException) -> bool:
        """Say whether an error's message was written for whoever asked for the job; a database's never is."""
        return isinstance(error, (UserError, *cls.user_errors)) and getattr(error, "sqlstate", None) is None

    @classmethod
    def validate(cls, payload: P) -> None:
        """Refuse, before a row exists, a payload whose types are right but whose content is not.

        Raises InvalidPayload. What only the database can tell belongs into `handle`.
        """

    @classmethod
    def all_queues(cls) -> set[str]:
        """Return every queue that jobs of this type wait in."""
        return {cls.queue, *cls.other_queues}

    @classmethod
    def concurrency_key(cls, payload: P) -> str | None:  # noqa: ARG003 - for those that have keys
        """Return what at most `key_limit` of a tenant's jobs may be at, such as "printer 3"; None waits for nobody.

        Types that return the same key take turns with one another.
        """
        return None

    @classmethod
    def summary(cls, payload: P, language: str) -> str:  # noqa: ARG003 - for those that say something
        """Return a line about a job's payload for people, such as "June 2026, 3 branches"; by default there is none."""
        return ""

    @abstractmethod
    def handle(self, job: JobContext, payload: P) -> Answer | Awaitable[Answer]:
        """Do the work; return a JSON result or an outcome, raise anything to be retried. May be `async def`."""

    @contextmanager
    def around(self, job: JobContext) -> Iterator[None]:
        """Have the middleware and `before` run first, and `after` and the middleware's ends last."""
        with ExitStack() as stack:
            for middleware in self.middleware:
                stack.enter_context(middleware(job))
            self.before(job)
            yield
            self.after(job)
            return
        # Only a middleware that says that it dealt with an error leads here; the work may be half done.
        raise HandlerMisuse(f"a middleware of {self.type} kept an error to itself; let it pass")

    def before(self, job: JobContext) -> None:
        """Run before each attempt, inside its transaction."""

    def after(self, job: JobContext) -> None:
        """Run after an attempt that returned, inside its transaction."""
