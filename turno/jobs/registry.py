"""Which handler serves which job type."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from turno.errors import InvalidSettings, UnknownJobType
from turno.jobs.handler import JobHandler

Handler = type[JobHandler[Any]]


class Registry:
    """Maps each job type to its handler class; all are loaded when it is made, so that a broken one stops the start."""

    def __init__(self, paths: Mapping[str, str], *, locale: Path | None = None) -> None:
        """`paths` gives for each type `package.module:Class`, written in code and never read from data.

        `locale` is the folder of the application's gettext catalogues (docs/mounting.md). Raises InvalidSettings, which
        names each type with a class that cannot be loaded.
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
