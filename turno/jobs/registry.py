"""Which handler serves which type: an explicit list, loaded one by one when needed."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Self

from turno.errors import InvalidSettings, UnknownJobType
from turno.jobs.handler import JobHandler


class Registry:
    """Maps a job type to its handler class, whose module is loaded when it is first asked for."""

    def __init__(self, paths: dict[str, str]) -> None:
        """`paths` gives for each type `package.module:Class`, written in code and never read from data.

        A handler of another version than 1 is entered with it, `package.module:Class@2`: what may be claimed
        is known before any module is loaded.
        """
        self._paths: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        for job_type, entry in paths.items():
            self._paths[job_type], _, version = entry.partition("@")
            self._versions[job_type] = int(version or 1)
        self._loaded: dict[str, type[JobHandler[Any]]] = {}

    @classmethod
    def of(cls, handlers: Iterable[type[JobHandler[Any]]]) -> Self:
        """Return a registry of these classes, under their own types; raises ValueError if two have the same."""
        registry = cls({})
        for handler in handlers:
            if other := registry._loaded.get(handler.type):
                names = f"{other.__module__}.{other.__qualname__} and {handler.__module__}.{handler.__qualname__}"
                raise ValueError(f"{names} have the same type, {handler.type!r}: give one of them another")
            registry._loaded[handler.type] = handler
            registry._paths[handler.type] = f"{handler.__module__}:{handler.__qualname__}"
            registry._versions[handler.type] = handler.version
        return registry

    @property
    def types(self) -> list[str]:
        """Return the names of all types, without loading any."""
        return sorted(self._paths)

    @property
    def versions(self) -> list[tuple[str, int]]:
        """Return every type with the version that is served here, without loading any."""
        return sorted(self._versions.items())

    @property
    def queues(self) -> list[str]:
        """Return the queues of all types; what cannot be loaded is taken to be in the contract's own."""
        return sorted({self.terms(job_type).queue for job_type in self.types})

    def load(self, job_type: str) -> type[JobHandler[Any]]:
        """Return the handler class of a type; raises UnknownJobType."""
        if job_type not in self._paths:
            raise UnknownJobType(job_type, self.types)
        if job_type not in self._loaded:
            module, name = self._paths[job_type].split(":")
            handler: type[JobHandler[Any]] = getattr(import_module(module), name)
            if handler.type != job_type:
                raise ValueError(f"{self._paths[job_type]} serves {handler.type!r}, but is registered as {job_type!r}")
            if handler.version != self._versions[job_type]:
                raise ValueError(f"{self._paths[job_type]} is version {handler.version}; register it with that")
            self._loaded[job_type] = handler
        return self._loaded[job_type]

    def terms(self, job_type: str) -> type[JobHandler[Any]]:
        """Return the class whose time limit and retries hold for a type: the contract's own if it cannot be loaded.

        Whoever runs the job meets the same error and records it.
        """
        try:
            return self.load(job_type)
        except Exception:  # noqa: BLE001 - a handler's module may raise anything
            return JobHandler

    def load_all(self) -> list[type[JobHandler[Any]]]:
        """Return every handler class, in the order of their types; raises InvalidSettings naming those it cannot."""
        problems = []
        for job_type in self.types:
            try:
                self.load(job_type)
            except Exception as error:  # noqa: BLE001 - a handler's module may raise anything
                place, kind = self._paths[job_type], type(error).__name__
                problems.append(f"HANDLERS: the type {job_type} cannot be loaded from {place}: {kind}: {error}")
        if problems:
            raise InvalidSettings(problems)
        return [self._loaded[job_type] for job_type in self.types]
