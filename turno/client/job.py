"""A job in the form of the API."""

from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

Status = Literal["accepted", "pending", "running", "completed", "failed", "cancelled"]
Outcome = Literal["completed", "completed_with_failures", "nothing_done", "failed", "cancelled"]
ENDED = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as of one answer of the API; `body` is the whole answer.

    An open job has the `outcome` None. A job that ran to its end has the status `completed`, and the outcome
    `completed`, `completed_with_failures` if some of its items failed, or `nothing_done` if all did. The status
    `accepted` is that of a submission. Where background jobs are disabled the server completes the job within the
    request: it then has neither an id nor an outcome.
    """

    id: str
    status: Status
    outcome: Outcome | None = None
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
            outcome=body.get("outcome"),
            revision=body.get("revision", -1),
            label=body.get("label", ""),
            result=body.get("result"),
            error=body.get("error"),
            progress=body.get("progress") or {},
            body=body,
        )
