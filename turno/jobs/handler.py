"""The contract between Turno and the code of one job type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, get_args

from turno.errors import HandlerMisuse, UserError
from turno.jobs.class_checks import problems_of_class, problems_of_payload
from turno.jobs.job_context import JobContext
from turno.jobs.retry import RetryPolicy

if TYPE_CHECKING:
    import builtins
    from collections.abc import Awaitable, Iterator
    from typing import Self

    from turno.jobs.outcome import Cancel, Reschedule
    from turno.jobs.type_words import TypeWords

    Answer: TypeAlias = dict[str, Any] | Reschedule | Cancel


P = TypeVar("P")

Middleware = Callable[[JobContext], AbstractContextManager[object]]


class JobHandler(ABC, Generic[P]):
    """Code for one job type; wraps an existing service that knows nothing of jobs.

    `JobHandler[P]` says what a payload is: a frozen dataclass. `docs/writing-handlers.md` is the guide.
    """

    type: ClassVar[str]
    version: ClassVar[int] = 1
    queue: ClassVar[str] = "hot"  # "hot" for what somebody waits for, "cold" for what takes minutes, or any other
    other_queues: ClassVar[tuple[str, ...]] = ()  # what a submission may choose instead
    subscribes: ClassVar[tuple[str, ...]] = ()  # the events that get a job each, with their data as payload
    ordered: ClassVar[bool] = False  # of one key one after another, each once the job of the one before has ended well
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    timeout: ClassVar[float] = 600.0  # seconds an attempt may take
    longest_transaction: ClassVar[float | None] = None  # seconds one of its transactions may stay open
    memory_mb: ClassVar[int | None] = None  # what it may allocate beyond what the worker uses already
    # Of a tenant's jobs with one `concurrency_key`: how many run at once, in the whole fleet, and how many begin in how
    # many seconds.
    key_limit: ClassVar[int | None] = None
    key_rate: ClassVar[tuple[int, float] | None] = None
    # Short jobs of a tenant share a transaction, each under a savepoint; `alone` they do not: for what has an effect
    # outside that must not be repeated for another job's sake.
    alone: ClassVar[bool] = False
    reads_company: ClassVar[bool] = False  # for reports over all branches of a company, by `job.company`
    user_errors: ClassVar[tuple[builtins.type[Exception], ...]] = ()  # the service's own, with messages for users
    middleware: ClassVar[tuple[Middleware, ...]] = ()  # around each attempt, in its transaction, the first outermost
    words: ClassVar[TypeWords] = {}  # what the pages say of the type in each language, see docs/pages.md
    redact: ClassVar[tuple[str, ...]] = ()  # fields of payload and result that only admins among operators read
    payload_type: ClassVar[builtins.type[Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for problem in problems_of_class(cls):
            raise ValueError(f"{cls.__name__}.{problem}")
        for origin in getattr(cls, "__orig_bases__", ()):
            for argument in get_args(origin):
                if not isinstance(argument, TypeVar):
                    cls.payload_type = argument
                    for problem in problems_of_payload(argument):
                        raise TypeError(f"{cls.__name__}.{problem}")

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
