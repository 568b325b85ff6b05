"""The sentence for the reason why a job waits, which the database finds."""

from collections.abc import Mapping
from typing import Any


def waiting_for(job: Mapping[str, Any]) -> str | None:
    """Return the reason why a stored job waits; None if a worker can take it."""
    if job["lacks"] is None:
        return None
    return lacking(job["lacks"], job_type=job["type"], version=job["version"], queue=job["queue"])


def lacking(lacks: str, *, job_type: str, version: int, queue: str) -> str:
    """Return the sentence for the answer of `turno.lacking` or `job_lacks` about this type, version and queue."""
    match lacks:
        case "type":
            return f"no living worker knows {job_type}"
        case "version":
            return f"no living worker knows version {version} of {job_type}: they know another"
        case "paused tenant":
            return "an operator paused the tenant"
        case "paused type":
            return f"an operator paused {job_type}"
        case "key":
            return "other jobs of its concurrency key go before it"
        case "order":
            return "the job of an earlier event of its key has not ended"
        case "dead letter":
            return "the job of an earlier event of its key failed for good: replay or discard its dead letter"
        case "parts":
            return "the parts that it was split into have not all ended"
        case "queue":
            return f"no living worker that knows {job_type} serves the queue {queue}"
        case _:
            return "no worker is alive"
