"""Handlers that read an upload and write files, and one that writes a batch in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import RetryPolicy


@dataclass(frozen=True, slots=True)
class CopyPayload:
    """The file to read, the number of copies, and whether to fail after them."""

    file_id: UUID
    times: int = 1
    fail: bool = False


class Copy(JobHandler[CopyPayload]):
    """Reads a file from its middle on, then whole, and writes it to another."""

    type = "copy"
    retry = RetryPolicy(max_attempts=1)

    def handle(self, job: JobContext, payload: CopyPayload) -> dict[str, Any]:
        """Copy."""
        with job.files.open(payload.file_id) as (file, stream):
            stream.seek(file.size // 2)
            half = len(stream.read())
            with job.files.create(f"copy of {file.name}") as copy:
                for _ in range(payload.times):
                    stream.seek(0)
                    while data := stream.read(100_000):
                        copy.write(data)
        if payload.fail:
            raise ValueError("after the file was written")
        return {"name": file.name, "half": half}


@dataclass(frozen=True, slots=True)
class GroupsPayload:
    """Numbers to keep: faulty numbers fail, one breaks its group, and one is kept twice."""

    numbers: tuple[int, ...]
    breaks: int = -1


class Groups(JobHandler[GroupsPayload]):
    """Keeps numbers as the customers' ids, a group with one statement."""

    type = "groups"
    retry = RetryPolicy(max_attempts=1)

    def handle(self, job: JobContext, payload: GroupsPayload) -> dict[str, Any]:
        """Keep them."""
        batch = job.each(payload.numbers)
        groups = 0
        for group in batch.groups(10):
            with group as items:
                groups += 1
                good = []
                for item in items:
                    if item.value % 2:
                        item.fail(ValueError(f"{item.value} is faulty"))
                    else:
                        good.append(str(item.value))
                        item.ref = f"kept {item.value}"
                job.connection.execute(
                    "INSERT INTO customers (id, company_name, tax_condition, country)"
                    " SELECT i, i, 'exempt', 'AR' FROM unnest(%s::text[]) AS i",
                    (good,),
                )
                if payload.breaks in [item.value for item in items]:
                    raise ValueError("this number breaks its group")
        counts = batch.counts
        return {"groups": groups, "done": counts.done, "failed": counts.failed}


REGISTRY = Registry.of([Copy, Groups])
