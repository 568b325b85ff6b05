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

_PLACES = {
    "InvalidPayload": "turno.errors",
    "NotEnqueued": "turno.errors",
    "NotIssued": "turno.errors",
    "PartsFailed": "turno.errors",
    "PermanentFailure": "turno.errors",
    "TurnoError": "turno.errors",
    "UnknownJobType": "turno.errors",
    "UserError": "turno.errors",
    "Absent": "turno.jobs.job_context",
    "Done": "turno.jobs.job_context",
    "Effect": "turno.jobs.job_context",
    "Finding": "turno.jobs.job_context",
    "Unknown": "turno.jobs.job_context",
    "Enqueued": "turno.jobs.new_job",
    "Published": "turno.jobs.new_job",
    "JobContext": "turno.jobs.job_context",
    "JobHandler": "turno.jobs.handler",
    "Cancel": "turno.jobs.outcome",
    "Reschedule": "turno.jobs.outcome",
    "Part": "turno.jobs.job_context",
    "Registry": "turno.jobs.handler",
    "RetryPolicy": "turno.jobs.outcome",
    "Principal": "turno.web.auth",
    "Turno": "turno.wiring.web",
    "TurnoASGI": "turno.wiring.asgi",
    "enqueue": "turno.wiring.enqueue",
    "enqueue_async": "turno.wiring.enqueue",
    "enqueue_many": "turno.wiring.enqueue",
    "enqueue_many_async": "turno.wiring.enqueue",
}

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
        return getattr(import_module(_PLACES[name]), name)
    if name in __all__:
        return import_module("turno.capability").public_name(name)
    raise AttributeError(f"module 'turno' has no attribute {name!r}")
