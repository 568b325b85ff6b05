"""The contract between Turno and the code of the job types, and the registry of their handler classes."""

import builtins
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, get_args

from turno.capability import load
from turno.errors import HandlerMisuse, InvalidSettings, UnknownJobType, UserError
from turno.jobs.converter import unsupported
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import Cancel, Reschedule, RetryPolicy

# Language -> name -> text, or the texts for one and for many, in which `{n}` is how many.
TypeWords = Mapping[str, Mapping[str, Sequence[str]]]

# The names that pages use.
WORDS = frozenset(
    {
        *("title", "item", "items", "items done", "items failed", "no items done", "no items failed", "result"),
        *("kept", "kept nothing", "happened some", "do rest", "do mend", "do lasting"),
    }
)
ERROR = "error "  # and an error's class: its explanation, with `{key}` of the item and its own `{message}`
EVENT_NAME = re.compile(r"[a-z][a-z0-9_.]{0,99}")
MOST_PER_KEY = 1000  # jobs; the end of each job counts all jobs of its key
LONGEST_PERIOD = 31 * 86_400  # seconds
LISTS = ("redact", "other_queues", "subscribes")
EXPECTED = "a Registry, a list of handler classes, or a function that returns one of them"

Answer: TypeAlias = dict[str, Any] | Reschedule | Cancel
P = TypeVar("P")

Middleware = Callable[[JobContext], AbstractContextManager[object]]


class JobHandler(ABC, Generic[P]):
    """The code of a job type; it calls an existing service, which does not depend on jobs.

    `JobHandler[P]` names the type of the payload: a frozen dataclass.
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
    lasting_errors: ClassVar[tuple[builtins.type[Exception], ...]] = ()  # errors that a retry with the payload repeats
    middleware: ClassVar[tuple[Middleware, ...]] = ()  # around each attempt, in its transaction, the first outermost
    words: ClassVar[TypeWords] = {}  # the words of the pages for the type in each language
    redact: ClassVar[tuple[str, ...]] = ()  # fields of payload and result that only admins among operators read
    payload_type: ClassVar[builtins.type[Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for problem in _problems_of_class(cls):
            raise ValueError(f"{cls.__name__}.{problem}")
        for origin in getattr(cls, "__orig_bases__", ()):
            for argument in get_args(origin):
                if not isinstance(argument, TypeVar):
                    cls.payload_type = argument
                    for field, reason in unsupported(argument):
                        raise TypeError(f"{cls.__name__}.payload_type: {f'field {field}: ' if field else ''}{reason}")

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
    def is_lasting(cls, error: BaseException) -> bool:
        """Return whether a retry with the same payload ends in this error, or in its cause, again."""
        return isinstance(error, cls.lasting_errors) or isinstance(error.__cause__, cls.lasting_errors)

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


Handler = type[JobHandler[Any]]


def _problems_of_class(handler: Handler) -> Iterator[str]:
    """Yield each problem after the name of its attribute."""
    if Exception in handler.user_errors:
        yield "user_errors must name the service's own errors, not every Exception"
    for name in LISTS:
        if isinstance(getattr(handler, name), str):
            yield f"{name} must be a list of names, not one text"
    yield from _problems_of_subscriber(handler)
    if handler.key_limit is not None and not 1 <= handler.key_limit <= MOST_PER_KEY:
        yield f"key_limit must be from 1 to {MOST_PER_KEY}"
    if handler.key_rate is not None:
        jobs, seconds = handler.key_rate
        if not (1 <= jobs <= MOST_PER_KEY and 0 < seconds <= LONGEST_PERIOD):
            yield f"key_rate must be from 1 to {MOST_PER_KEY} jobs, in at most {LONGEST_PERIOD} s"
    names = {name for words in handler.words.values() for name in words} - WORDS
    if unknown := sorted(name for name in names if not name.startswith(ERROR)):
        yield f"words: no page uses {', '.join(unknown)}"


def _problems_of_subscriber(handler: Handler) -> Iterator[str]:
    for event in handler.subscribes:
        if not EVENT_NAME.fullmatch(event):
            yield f"subscribes: {event!r} is no name of an event, such as order.paid"
    if handler.ordered and not handler.subscribes:
        yield "ordered is for a handler that subscribes to events: it orders jobs by their keys"
    if handler.ordered and (handler.key_limit or sum("concurrency_key" in vars(base) for base in handler.__mro__) > 1):
        yield "ordered takes the keys of events with one job each: leave out concurrency_key and key_limit"


class Registry:
    """Maps each job type to its handler class; all are loaded when it is made, so that a broken one stops the start."""

    def __init__(self, paths: Mapping[str, str], *, locale: Path | None = None) -> None:
        """`paths` gives for each type `package.module:Class`, written in code and never read from data.

        `locale` is the folder of the application's gettext catalogues. Raises InvalidSettings, which names each
        type with a class that cannot be loaded.
        """
        self.locale = locale
        self._handlers: dict[str, Handler] = {}
        problems = []
        for job_type, path in paths.items():
            try:
                self._handlers[job_type] = _load(job_type, path)
            except Exception as error:  # noqa: BLE001 - a handler's module may raise anything
                kind = type(error).__name__
                problems.append(f"TURNO_HANDLERS: the type {job_type} cannot be loaded from {path}: {kind}: {error}")
        if problems:
            raise InvalidSettings(problems)

    @classmethod
    def of(cls, handlers: Iterable[Handler], *, locale: Path | None = None) -> Self:
        """Return a registry of these classes, under their own types; raises ValueError if two have the same."""
        registry = cls({}, locale=locale)
        for handler in handlers:
            if other := registry._handlers.get(handler.type):
                names = f"{other.__module__}.{other.__qualname__} and {handler.__module__}.{handler.__qualname__}"
                raise ValueError(f"{names} have the same type, {handler.type!r}: give one of them another")
            registry._handlers[handler.type] = handler
        return registry

    @property
    def handlers(self) -> list[Handler]:
        """Return every handler class, in the order of their types."""
        return [self._handlers[job_type] for job_type in sorted(self._handlers)]

    @property
    def versions(self) -> list[tuple[str, int]]:
        """Return every type with its version in this registry."""
        return [(handler.type, handler.version) for handler in self.handlers]

    @property
    def queues(self) -> list[str]:
        """Return the queues of all types."""
        return sorted({queue for handler in self.handlers for queue in handler.all_queues()})

    def handler(self, job_type: str) -> Handler:
        """Return the handler class of a type; raises UnknownJobType."""
        if job_type not in self._handlers:
            raise UnknownJobType(job_type, sorted(self._handlers))
        return self._handlers[job_type]


def _load(job_type: str, path: str) -> Handler:
    module, name = path.split(":")
    handler: Handler = getattr(import_module(module), name)
    if handler.type != job_type:
        raise ValueError(f"it serves {handler.type!r}")
    return handler


def named_handlers(reference: str) -> Registry:
    """Return the registry at `package.module:name`; raises InvalidSettings with the problem.

    A Registry, a list of handler classes, or a function that returns a Registry or a list. The working directory is
    looked in, too, after everything that is installed.
    """
    if not reference:
        raise InvalidSettings(["TURNO_HANDLERS is not set: name a list of handler classes as package.module:name"])
    try:
        loaded = load(reference)
        if callable(loaded) and not isinstance(loaded, type):
            loaded = loaded()
        return loaded if isinstance(loaded, Registry) else Registry.of(_classes(loaded))
    except InvalidSettings:
        raise
    except (ModuleNotFoundError, AttributeError) as error:
        what = f"{error}; name {EXPECTED} as package.module:name, on the path or in the working directory"
        raise InvalidSettings([f"TURNO_HANDLERS={reference}: {type(error).__name__}: {what}"]) from error
    except Exception as error:  # a module may raise anything
        raise InvalidSettings([f"TURNO_HANDLERS={reference}: {type(error).__name__}: {error}"]) from error


def _classes(loaded: Any) -> list[type[JobHandler[Any]]]:
    classes = list(loaded) if isinstance(loaded, Iterable) else [loaded]
    for handler in classes:
        if not (isinstance(handler, type) and issubclass(handler, JobHandler)):
            raise TypeError(f"expected {EXPECTED}, not {handler!r}")
    return classes
