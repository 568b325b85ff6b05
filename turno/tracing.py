"""The trace of a job, a W3C traceparent that is stored with it, and the hook for its spans.

Without a capability that declares a tracer, no spans are recorded.
"""

import logging
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import cast

from turno.capability import Capability, installed, load

Attributes = Mapping[str, str | int]


class Spans:
    """The spans of one attempt; this class records none."""

    def current(self) -> AbstractContextManager[None]:
        """Return the block that calls the handler."""
        return nullcontext()

    def end(self, status: str) -> None:
        """End the spans: the record of the attempt is committed as `status`, or its claim was lost."""


class Tracer:
    """Records the path of jobs; this class records nothing."""

    def dispatch(self, traceparent: str | None, attributes: Attributes) -> AbstractContextManager[str]:  # noqa: ARG002
        """Return the block that submits a job, with the traceparent for the job."""
        return nullcontext(continued(traceparent))

    def attempt(self, traceparent: str | None, attributes: Attributes) -> Spans:  # noqa: ARG002
        """Return the spans of an attempt that begins."""
        return Spans()

    def flush(self) -> None:
        """Export the remaining spans, before the process ends by os._exit."""


@cache
def tracer() -> Tracer:
    """Return the tracer of this process; the first call comes after the last fork of the process.

    No declaration is loaded where no variable of OpenTelemetry is set.
    """
    return next((cast("Tracer", load(hook.tracer)()) for hook in _declared() if hook.tracer), Tracer())


def log_handlers() -> list[logging.Handler]:
    """Return the handlers that export log lines; none is loaded where no variable of OpenTelemetry is set."""
    made = [load(hook.log_lines)() for hook in _declared() if hook.log_lines]
    return [handler for handler in made if handler is not None]


def _declared() -> tuple[Capability, ...]:
    return installed() if any(name.startswith("OTEL_") for name in os.environ) else ()


def flush() -> None:
    """Export the remaining spans of this process, if it recorded any."""
    if tracer.cache_info().currsize:
        tracer().flush()


TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def continued(traceparent: str | None) -> str:
    """Return the caller's traceparent, or that of a new trace if it is missing or not valid, as W3C has it."""
    if traceparent is not None and TRACEPARENT.fullmatch(traceparent):
        return traceparent
    made = secrets.token_hex(24)
    return f"00-{made[:32]}-{made[32:]}-00"


def trace_id(traceparent: str | None) -> str | None:
    """Return the trace's id, by which a tracing system finds it; None for a job that belongs to no trace."""
    match = TRACEPARENT.fullmatch(traceparent or "")
    return match[1] if match else None
