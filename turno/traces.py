"""Which trace a job belongs to: a W3C traceparent, kept with the job, its retries and its children."""

import re
import secrets

TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def continued(traceparent: str | None) -> str:
    """Return the caller's traceparent, or that of a new trace if it is missing or not valid, as W3C has it."""
    if traceparent is not None and TRACEPARENT.fullmatch(traceparent):
        return traceparent
    made = secrets.token_hex(24)
    return f"00-{made[:32]}-{made[32:]}-00"


def trace_id(traceparent: str | None) -> str | None:
    """Return the trace's id, by which a tracing system finds it; None for a job that belongs to no trace."""
    found = TRACEPARENT.fullmatch(traceparent or "")
    return found[1] if found else None
