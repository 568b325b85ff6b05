"""A job's address, its states and its priorities, as every room names them."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Literal, Self, TypeAlias
from uuid import UUID


class Status(StrEnum):
    """The five states; labels such as "retrying" are derived from columns."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Say whether a job in this state will never change again."""
        return self not in (Status.PENDING, Status.RUNNING)


class Priority(IntEnum):
    """Three bands inside one tenant; no tenant gets ahead of another by them."""

    URGENT = 0
    NORMAL = 1
    LOW = 2

    @property
    def word(self) -> str:
        """Return the name the API uses."""
        return self.name.lower()


PriorityName: TypeAlias = Priority | Literal["urgent", "normal", "low"]


@dataclass(frozen=True, slots=True)
class JobRef:
    """The address of a job: its tenant's slug and its id."""

    tenant: str
    job_id: UUID

    @classmethod
    def parse(cls, tenant: str, text: str) -> Self:
        """Read a job id given as text; raises ValueError naming the expected form."""
        try:
            return cls(tenant, UUID(text))
        except ValueError:
            raise ValueError(f"{text[:60]!r} is not a job id: expected a UUID") from None
