"""The right of a worker to run a job."""

from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from turno.jobs.job import JobRef
from turno.tenancy.identity.tenant import CompanyLogin, HandlerLogin


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
