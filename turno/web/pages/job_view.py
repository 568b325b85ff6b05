"""A job as the pages show it, on top of what the API says of it."""

from dataclasses import dataclass
from typing import Any

from turno.jobs.job import Status
from turno.web.addresses import at
from turno.web.api.job_body import JobBody, job_body
from turno.web.pages.visit import Visit

# Labels of a job that does not keep its user from starting another.
PUT_OFF = frozenset({"scheduled", "needs review"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job with its words in the reader's language."""

    body: JobBody
    title: str
    state: str
    count: str
    failed_count: str

    @property
    def id(self) -> str:
        """Its id as text."""
        return str(self.body.job_id)

    @property
    def active(self) -> bool:
        """Whether it is under way or about to be."""
        return not self.body.status.ended and self.body.label not in PUT_OFF

    @property
    def cancellable(self) -> bool:
        """Whether pressing cancel would change anything."""
        return not self.body.status.ended and self.body.label != "cancelling"

    @property
    def retryable(self) -> bool:
        """Whether there is something left that a new job could do."""
        unfinished = self.body.status in (Status.FAILED, Status.CANCELLED)
        left = unfinished or (self.body.status is Status.COMPLETED and self.body.progress.failed > 0)
        return left and self.body.successor_id is None

    @property
    def counted(self) -> bool:
        """Whether it knows how much there is to do."""
        return self.body.progress.total > 0

    def share(self, part: int) -> str:
        """Return a part of the whole as a width."""
        return f"{100 * part / max(1, self.body.progress.total):.2f}%"


def job_view(row: dict[str, Any], visit: Visit) -> JobView:
    """Return a stored job as the visitor may see it."""
    body = job_body(row, at(""), operator=visit.scope.principal.operator)
    localizer, progress = visit.localizer, body.progress
    return JobView(
        body=body,
        title=localizer.title(body.type),
        state=localizer.say(body.label, n=progress.failed),
        count=localizer.say("count", done=localizer.number(progress.done), total=localizer.number(progress.total)),
        failed_count=localizer.say("failed count", n=progress.failed) if progress.failed else "",
    )
