"""Background jobs for applications that keep each tenant in its own PostgreSQL schema.

The public names for applications; `turno.pages` has the names for an application's own pages. Each name is loaded at
its first use: a worker does not pay for unused names.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turno.capabilities.events.publish import publish
    from turno.errors import (
        InvalidPayload,
        NotEnqueued,
        NotIssued,
        PartsFailed,
        PermanentFailure,
        TurnoError,
        UnknownJobType,
        UserError,
    )
    from turno.jobs.handler import JobHandler, Registry
    from turno.jobs.job_context import Absent, Done, Effect, Finding, JobContext, Part, Unknown
    from turno.jobs.new_job import Enqueued, Published
    from turno.jobs.outcome import Cancel, Reschedule, RetryPolicy
    from turno.web.auth import Principal
    from turno.wiring.asgi import TurnoASGI
    from turno.wiring.enqueue import enqueue, enqueue_async, enqueue_many, enqueue_many_async
    from turno.wiring.web import Turno

_NAMES = {
    "turno.errors": (
        "InvalidPayload",
        "NotEnqueued",
        "NotIssued",
        "PartsFailed",
        "PermanentFailure",
        "TurnoError",
        "UnknownJobType",
        "UserError",
    ),
    "turno.jobs.job_context": ("Absent", "Done", "Effect", "Finding", "Unknown", "JobContext", "Part"),
    "turno.jobs.new_job": ("Enqueued", "Published"),
    "turno.jobs.handler": ("JobHandler", "Registry"),
    "turno.jobs.outcome": ("Cancel", "Reschedule", "RetryPolicy"),
    "turno.web.auth": ("Principal",),
    "turno.wiring.web": ("Turno",),
    "turno.wiring.asgi": ("TurnoASGI",),
    "turno.wiring.enqueue": ("enqueue", "enqueue_async", "enqueue_many", "enqueue_many_async"),
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Absent",
    "Cancel",
    "Done",
    "Effect",
    "Enqueued",
    "Finding",
    "InvalidPayload",
    "JobContext",
    "JobHandler",
    "NotEnqueued",
    "NotIssued",
    "Part",
    "PartsFailed",
    "PermanentFailure",
    "Principal",
    "Published",
    "Registry",
    "Reschedule",
    "RetryPolicy",
    "Turno",
    "TurnoASGI",
    "TurnoError",
    "Unknown",
    "UnknownJobType",
    "UserError",
    "enqueue",
    "enqueue_async",
    "enqueue_many",
    "enqueue_many_async",
    "publish",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415 - see the docstring

    if name in _PLACES:
        try:
            return getattr(import_module(_PLACES[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "flask":
                raise
            raise ImportError(f"turno.{name} needs Flask: install turno-jobs with its extra `web`") from error
    if name in __all__:
        return import_module("turno.capability").public_name(name)
    raise AttributeError(f"module 'turno' has no attribute {name!r}")
