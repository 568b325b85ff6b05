"""Live changes of jobs, which a capability may provide; without one, clients poll."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol
from uuid import UUID

from flask import Response

from turno.web.http.requests import described

if TYPE_CHECKING:
    from turno.web.routes import Call

LONGEST_WAIT = 300  # seconds: the largest value of the parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitQuery:
    """How long the caller waits for the job's end."""

    wait: Annotated[
        int,
        described(
            "Seconds to wait for the job's end before the answer; the server may wait for less.", ge=0, le=LONGEST_WAIT
        ),
    ] = 0


class Live(Protocol):
    """The live changes of one web process; its length is the number of open streams."""

    def __len__(self) -> int: ...

    def announce(self, tenant_id: int, job_id: UUID) -> None:
        """Notify every web process that a job changed; does not wait, and may be lost."""

    def await_end(self, call: "Call", query: WaitQuery, job_id: UUID, answer: Response) -> Response:
        """Return the answer that the caller waits for; at once if the job has ended or no wait is possible."""

    def end_all(self) -> None:
        """End every stream and every wait: the process stops."""


class NoLive:
    """Without the capability: no request waits."""

    def __len__(self) -> int:
        return 0

    def announce(self, tenant_id: int, job_id: UUID) -> None:
        """Do nothing."""

    def await_end(self, call: "Call", query: WaitQuery, job_id: UUID, answer: Response) -> Response:  # noqa: ARG002
        """Return the answer at once."""
        return answer

    def end_all(self) -> None:
        """Do nothing."""
