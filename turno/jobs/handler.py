"""The contract between Turno and the code of one job type."""

import builtins
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, get_args

from turno.errors import HandlerMisuse, UserError
from turno.jobs.class_checks import problems_of_class, problems_of_payload
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import Cancel, Reschedule
from turno.jobs.retry import RetryPolicy
from turno.jobs.type_words import TypeWords

Answer: TypeAlias = dict[str, Any] | Reschedule | Cancel
P = TypeVar("P")

Middleware = Callable[[JobContext], AbstractContextManager[object]]


class JobHandler(ABC, Generic[P]):
    """The code of a job type; it calls an existing service, which does not depend on jobs.

    `JobHandler[P]` names the type of the payload: a frozen dataclass. The guide is `docs/writing-handlers.md`.
    """

    type: ClassVar[str]
    version: ClassVar[int] = 1
    queue: ClassVar[str] = "hot"  # "hot" for jobs with a waiting user, "cold" for jobs of minutes, or another name
    other_queues: ClassVar[tuple[str, ...]] = ()  # further queues that a submission may choose
    subscribes: ClassVar[tuple[str, ...]] = ()  # the events that get a job each, with their data as payload
    ordered: ClassVar[bool] = False  # jobs of a key run in order, each after the success of the job before
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    timeout: ClassVar[float] = 600.0  # seconds an attempt may take
    longest_transaction: ClassVar[float | None] = None  # seconds one of its transactions may stay open
    memory_mb: ClassVar[int | None] = None  # memory of a job, in addition to the worker's memory
    # For a tenant's jobs with the same `concurrency_key`: the number that runs at the same time in the whole fleet, and
    # the number that begins within a number of seconds.
    key_limit: ClassVar[int | None] = None
    key_rate: ClassVar[tuple[int, float] | None] = None
    # Short jobs of a tenant share a transaction, each under a savepoint. A job that is `alone` does not: its effects
    # outside the database are not repeated because of another job.
    alone: ClassVar[bool] = False
    reads_company: ClassVar[bool] = False  # for reports over all branches of a company, by `job.company`
    user_errors: ClassVar[tuple[builtins.type[Exception], ...]] = ()  # errors of the service, with messages for users
    middleware: ClassVar[tuple[Middleware, ...]] = ()  # around each attempt, in its transaction, the first outermost
    words: ClassVar[TypeWords] = {}  # the words of the pages for the type in each language, see docs/mounting.md
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
        """Return whether an error's message is for the user of the job; a message of the database never is."""
        return isinstance(error, (UserError, *cls.user_errors)) and getattr(error, "sqlstate", None) is None

    @classmethod
    def validate(cls, payload: P) -> None:
        """Refuse a payload with valid types and an invalid content, before a row exists.

        Raises InvalidPayload. Checks that need the database belong into `handle`.
        """

    @classmethod
    def all_queues(cls) -> set[str]:
        """Return every queue that jobs of this type wait in."""
        return {cls.queue, *cls.other_queues}

    @classmethod
    def concurrency_key(cls, payload: P) -> str | None:  # noqa: ARG003 - for types with keys
        """Return the key that at most `key_limit` running jobs of a tenant share, such as "printer 3"; None: no limit.

        Types that return the same key share its limit.
        """
        return None

    @classmethod
    def summary(cls, payload: P, language: str) -> str:  # noqa: ARG003 - for types with a summary
        """Return a line about a job's payload for users, such as "June 2026, 3 branches"; by default it is empty."""
        return ""

    @abstractmethod
    def handle(self, job: JobContext, payload: P) -> Answer | Awaitable[Answer]:
        """Do the work; return a JSON result or an outcome; an error is retried. May be `async def`."""

    @contextmanager
    def around(self, job: JobContext) -> Iterator[None]:
        """Run the middleware and `before` first, and `after` and the ends of the middleware last."""
        with ExitStack() as stack:
            for middleware in self.middleware:
                stack.enter_context(middleware(job))
            self.before(job)
            yield
            self.after(job)
            return
        # Reached only if a middleware suppressed an error; the work may be half done.
        raise HandlerMisuse(f"a middleware of {self.type} kept an error to itself; let it pass")

    def before(self, job: JobContext) -> None:
        """Run before each attempt, inside its transaction."""

    def after(self, job: JobContext) -> None:
        """Run after an attempt that returned, inside its transaction."""
