"""System checks for the work of handlers that would leave the transaction of its job."""

from __future__ import annotations

import sys
from inspect import iscoroutinefunction
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DEFAULT_DB_ALIAS, connection, connections, router, transaction
from django.db.models.base import ModelBase

from turno.contrib.django.database import job_database, wrapper_class
from turno.environment import setting
from turno.errors import HandlerMisuse, InvalidSettings
from turno.jobs.handler import named_handlers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turno.jobs.handler import Handler

TAG = "turno"
OF_THE_DATABASE = (connection, connections, transaction)


def check_databases(**_: Any) -> list[CheckMessage]:
    """Warn about a default database or a router that takes models out of the job's transaction."""
    return [*_engine(), *_routes()]


def check_handlers(**_: Any) -> list[CheckMessage]:
    """Warn about each handler with models that are not on the connection of its job."""
    if not (reference := setting("handlers")):
        return []
    try:
        handlers = named_handlers(reference).handlers
    except InvalidSettings as problem:
        return [Error(str(problem), hint="correct TURNO_HANDLERS, or the module that it names", id="turno.E001")]
    return [problem for handler in handlers for problem in _handler(handler)]


def _engine() -> Iterator[CheckMessage]:
    try:
        wrapper_class(connections.settings[DEFAULT_DB_ALIAS]["ENGINE"])
    except HandlerMisuse as problem:
        yield CheckWarning(
            f"models of the default database leave the transaction of a job: {problem}",
            hint="use the engine django.db.backends.postgresql or django_tenants.postgresql_backend",
            id="turno.W001",
        )


def _routes() -> Iterator[CheckMessage]:
    """Yield a warning for each database but the default that a router chooses for models."""
    models: dict[str, list[str]] = {}
    for model in apps.get_models():
        for alias in {router.db_for_read(model), router.db_for_write(model)} - {DEFAULT_DB_ALIAS}:
            models.setdefault(alias, []).append(model._meta.label)  # noqa: SLF001 - Django's name of a model
    for alias, labels in models.items():
        yield CheckWarning(
            f"a router chooses the database {alias!r} for {', '.join(labels)}: job_database(job) does not replace it",
            hint=f"in handlers that use these models enter job_database(job, using={alias!r})",
            id="turno.W002",
        )


def _handler(handler: Handler) -> Iterator[CheckMessage]:
    names = [value for module in _modules(handler) for value in vars(module).values()]
    if not any(
        issubclass(type(value), ModelBase) or any(value is check for check in OF_THE_DATABASE) for value in names
    ):
        return
    if iscoroutinefunction(handler.handle):
        yield CheckWarning(
            "Django runs the queries of an async handler in another thread: they leave the transaction of the job",
            hint="write `def handle` in place of `async def handle`, or use job.async_connection",
            obj=handler,
            id="turno.W003",
        )
    elif not any(value is job_database for value in (*names, *handler.middleware)):
        yield CheckWarning(
            "the models of this handler work under Django's login and commit without the job",
            hint="add `middleware = (job_database,)` of turno.contrib.django.database to the class",
            obj=handler,
            id="turno.W004",
        )


def _modules(handler: Handler) -> set[ModuleType]:
    """Return the modules of a handler's classes, and the modules that define the functions and classes used there."""
    own = {sys.modules[kind.__module__] for kind in handler.__mro__}
    # By `type`: an isinstance would evaluate lazy objects of Django.
    used = [value for module in own for value in vars(module).values()]
    named = {value.__module__ for value in used if issubclass(type(value), (type, FunctionType))}
    imported = {value for value in used if type(value) is ModuleType}
    return own | imported | {sys.modules[name] for name in named if name in sys.modules}
