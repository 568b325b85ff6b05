"""How a part of a job ended that was split by `job.fan_out`."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from turno.jobs.job import Status


@dataclass(frozen=True, slots=True)
class Part:
    """One part; `done` and `failed` count the items of its ledger, `error` is the error of a failed part."""

    job_id: UUID
    status: Status
    result: dict[str, Any] | None
    error: str | None
    done: int
    failed: int

    @property
    def completed(self) -> bool:
        """Whether the part ran to its end, even with failed items."""
        return self.status is Status.COMPLETED
