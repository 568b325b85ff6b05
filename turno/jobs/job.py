"""The address of a job, its states and priorities, and the right of a worker to run it."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Literal, Self, TypeAlias
from uuid import UUID

from turno.tenancy.identity.tenant import CompanyLogin, HandlerLogin


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to run one attempt of one job: every function that writes for the attempt compares the token.

    `company` is set only for a handler that reads the branches of its company.
    """

    job_id: UUID
    token: UUID
    attempt: int
    type: str
    version: int
    tenant_id: int
    login: HandlerLogin
    company: CompanyLogin | None = field(default=None, repr=False, compare=False)

    @property
    def ref(self) -> JobRef:
        """Return the job's address."""
        return JobRef(self.login.slug, self.job_id)

    @property
    def log_fields(self) -> dict[str, object]:
        """Return the fields of this attempt for a log line."""
        return {
            "tenant": self.login.slug,
            "job_id": str(self.job_id),
            "type": self.type,
            "attempt": self.attempt,
        }


# A batch for a child: claims of one tenant, type and version, to be run in this order.
Batch: TypeAlias = tuple[Claim, ...]
