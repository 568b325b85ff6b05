"""Jobs as a terminal shows them."""

import json
from collections.abc import Mapping
from typing import Any

from turno.jobs.job import Priority, Status
from turno.jobs.label import label, outcome, waiting_for
from turno.traces import trace_id

Row = dict[str, Any]
LIST_HEADERS = ("job", "type", "state", "progress", "user", "created", "seconds", "error")


def list_row(job: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a job as a row under LIST_HEADERS."""
    return (
        job["id"],
        job["type"],
        label(job),
        progress(job),
        job["user_id"],
        job["created_at"],
        seconds(job),
        error(job["error"]),
    )


def details(job: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields of a job, line by line, without empty fields."""
    lines = [
        ("job", job["id"]),
        ("type", job["type"]),
        ("state", label(job)),
        ("outcome", outcome(job["status"], job["done"], job["failed"])),
        ("reason", job["reason"]),
        ("waiting for", waiting_for(job)),
        ("progress", " ".join(filter(None, (progress(job), job["message"])))),
        ("user", job["user_id"]),
        ("priority", Priority(job["priority"]).word),
        ("attempts", f"{job['attempt']} ({job['errors']} of {job['max_attempts']} errors, {job['crashes']} crashes)"),
        ("created", job["created_at"]),
        ("runs at", job["run_at"] if job["status"] == Status.PENDING else None),
        ("expires", job["expires_at"]),
        ("started", job["started_at"]),
        ("finished", job["finished_at"]),
        ("seconds", seconds(job)),
        ("parts", parts(job)),
        *((name, ", ".join(value) if isinstance(value, list) else value) for name, value in job["attributes"].items()),
        ("comes from", job["parent_id"]),
        ("continued by", job["successor_id"]),
        ("correlation", job["correlation_id"]),
        ("trace", trace_id(job["trace_context"])),
        ("error", error(job["error"])),
        ("payload", None if job.get("payload") is None else json.dumps(job["payload"])),
        ("result", None if job["result"] is None else json.dumps(job["result"])),
    ]
    return [(name, value) for name, value in lines if value not in (None, "")]


def progress(job: Mapping[str, Any]) -> str:
    """Return the progress of a job, such as `120/500, 3 failed`; empty before its first report."""
    if not job["total"]:
        return ""
    failed = f", {job['failed']} failed" if job["failed"] else ""
    return f"{job['done'] + job['failed']}/{job['total']}{failed}"


def parts(job: Mapping[str, Any]) -> str:
    """Return how the parts stand that a job was split into, such as `3 of 10 ended, 1 failed`."""
    if not job["parts"]:
        return ""
    failed = f", {job['parts']['failed']} failed" if job["parts"]["failed"] else ""
    return f"{job['parts']['ended']} of {job['parts']['total']} ended{failed}"


def seconds(job: Mapping[str, Any]) -> float | None:
    """Return how long the job's attempts took together."""
    return None if job["run_seconds"] is None else round(job["run_seconds"], 1)


def error(stored: Mapping[str, Any] | None) -> str:
    """Return a stored error on one line."""
    if stored is None:
        return ""
    reference = f" ({stored['reference']})" if stored.get("reference") else ""
    cause = f", caused by {stored['cause']}" if stored.get("cause") else ""
    return f"{stored.get('class', 'Error')}: {stored.get('message', '')}{cause}{reference}"
