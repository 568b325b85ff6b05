"""`job.append`: add a value to the values of a job, which readers see before its end."""

from typing import Any

from turno.jobs.job_context import JobContext
from turno.jobs.json_text import serialise
from turno.runner.context import AttemptContext
from turno.store.statements import under_claim


def append(job: JobContext, value: Any) -> None:
    """Add the value in the transaction of the job's work; within a request nothing reads it."""
    text = serialise({"value": value})
    if isinstance(job, AttemptContext):
        under_claim(job.connection, job.claim, "job_append", text)
