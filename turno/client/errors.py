"""The errors of a client: one root, and a class for each reaction of a caller."""

from collections.abc import Mapping
from typing import Any

from turno.client.job import Job
from turno.errors import TurnoError


class ClientError(TurnoError):
    """The root of all errors of `turno.client`.

    `status` is the answer's, None if there was none. The other attributes are fields of its problem document (RFC
    9457): `kind` is the end of its `type`, `instance` the id of the error in the server's log, `errors` the invalid
    fields with their errors. `retry_after` is in seconds.
    """

    def __init__(
        self,
        told: str,
        *,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(told)
        self.status = status
        self.problem = dict(problem or {})
        self.retry_after = retry_after
        self.kind: str = str(self.problem.get("type", "")).rpartition("#")[2]
        self.title: str = str(self.problem.get("title", ""))
        self.detail: str = str(self.problem.get("detail", told))
        self.instance: str | None = self.problem.get("instance")
        self.errors: list[dict[str, str]] = self.problem.get("errors", [])
        self.limit: str | None = self.problem.get("limit")


class Refused(ClientError):
    """The server would give the same answer again: correct the named problem."""


class Unavailable(ClientError):
    """No answer could be had in the time that the client tries: the same call may be made again, later."""


class NotEnded(ClientError):
    """The time to wait is over, and the job continues; `job` is its present state."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"Job {job.id} has not ended yet: it is {job.label or job.status}")
        self.job = job
