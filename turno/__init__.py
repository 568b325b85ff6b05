"""Background jobs for applications that keep each tenant in its own PostgreSQL schema.

What stands here is what an application may use; `turno.pages` has what pages of its own build on. Each name is loaded
when it is asked for: a worker pays for nothing that it skips.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turno.errors import InvalidPayload, NotIssued, PermanentFailure, TurnoError
    from turno.jobs.effect import Absent, Done, Effect, Finding
    from turno.jobs.handler import JobContext, JobHandler
    from turno.jobs.outcome import Cancel, Reschedule
    from turno.jobs.payload import AtMost
    from turno.jobs.registry import Registry
    from turno.jobs.retry import RetryPolicy
    from turno.wiring.web import Turno

_PLACES = {
    "InvalidPayload": "turno.errors",
    "NotIssued": "turno.errors",
    "PermanentFailure": "turno.errors",
    "TurnoError": "turno.errors",
    "Absent": "turno.jobs.effect",
    "Done": "turno.jobs.effect",
    "Effect": "turno.jobs.effect",
    "Finding": "turno.jobs.effect",
    "JobContext": "turno.jobs.handler",
    "JobHandler": "turno.jobs.handler",
    "Cancel": "turno.jobs.outcome",
    "Reschedule": "turno.jobs.outcome",
    "AtMost": "turno.jobs.payload",
    "Registry": "turno.jobs.registry",
    "RetryPolicy": "turno.jobs.retry",
    "Turno": "turno.wiring.web",
}

__all__ = [
    "Absent",
    "AtMost",
    "Cancel",
    "Done",
    "Effect",
    "Finding",
    "InvalidPayload",
    "JobContext",
    "JobHandler",
    "NotIssued",
    "PermanentFailure",
    "Registry",
    "Reschedule",
    "RetryPolicy",
    "Turno",
    "TurnoError",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'turno' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see the docstring

    return getattr(import_module(_PLACES[name]), name)
