"""What is said of a job besides its type and payload, in the same words by everything in Python that enqueues."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self
from uuid import UUID

from turno.errors import NotEnqueued
from turno.jobs.job import Priority


class Enqueued(NamedTuple):
    """The job that was asked for; not new if it was there already, under its key."""

    job_id: UUID
    is_new: bool


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """When, how urgent, and under which key for how long."""

    run_at: datetime | None
    priority: Priority
    unique_for: timedelta | None

    @classmethod
    def of(cls, run_at: datetime | None, priority: Priority | str, unique_for: timedelta | float | None) -> Self:
        """Return them checked; raises NotEnqueued naming the option. Numbers are seconds."""
        if run_at is not None and run_at.utcoffset() is None:
            raise NotEnqueued("run_at has no time zone: give it one, such as datetime.now(UTC) has")
        if isinstance(priority, str):
            if priority.upper() not in Priority.__members__:
                raise NotEnqueued(f"priority {priority[:60]!r} is none: say urgent, normal or low")
            priority = Priority[priority.upper()]
        if isinstance(unique_for, int | float):
            unique_for = timedelta(seconds=unique_for)
        return cls(run_at, priority, unique_for)


def payload_of(payload: Any, fields: Mapping[str, Any]) -> Any:
    """Return one payload of what was given as a whole and of what was given by name."""
    if payload is None:
        return dict(fields)
    if not fields:
        return payload
    if not isinstance(payload, Mapping):
        raise NotEnqueued(f"give the payload as {type(payload).__name__} or by its fields, not both")
    return {**payload, **fields}
