"""A job as the API tells of it."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

Status = Literal["accepted", "pending", "running", "completed", "failed", "cancelled"]
ENDED = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is known of a job; `body` is all that the API said.

    `accepted` is a job that nobody asked for since it was submitted. One without an id was done within the request,
    because background jobs are switched off there.
    """

    id: str
    status: Status
    revision: int = -1
    label: str = ""
    result: Any = None
    error: dict[str, Any] | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> bool:
        """Whether it is over, however it ended."""
        return self.status in ENDED

    @classmethod
    def of(cls, body: dict[str, Any]) -> Self:
        """Return the job of an answer."""
        return cls(
            id=body.get("job_id", ""),
            status=cast("Status", body["status"]),
            revision=body.get("revision", -1),
            label=body.get("label", ""),
            result=body.get("result"),
            error=body.get("error"),
            progress=body.get("progress") or {},
            body=body,
        )
