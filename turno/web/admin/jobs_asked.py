"""Which jobs of which tenants an operator's page is about, as its address says it."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from turno.jobs.job import Status
from turno.jobs.label import FAILURES, Outcome
from turno.store.api.jobs import JobFilter
from turno.store.operator.job_search import Cursor, JobsWanted, first_id
from turno.web.admin.operator_pages import OperatorVisit
from turno.web.http.problems import FieldProblem, invalid
from turno.web.http.query import NOT_GIVEN, Text, searchable
from turno.web.services import services

Since = Literal["1h", "24h", "7d", "all"]
SINCE: dict[Since, timedelta | None] = {
    "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7), "all": None
}  # fmt: skip
# What only the jobs' own tenants know.
OF_TENANTS = ("user", "request", "payload")
CHOSEN = ("status", "outcome", "type", "tenant", "error", *OF_TENANTS, "since")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAsked:
    """The fields of a form of filters; an empty field leaves it free. `request` is a correlation or trace id.

    The outcome `failures` is each outcome of a failure. `at` and `id` are the last job of the previous page, or the
    bounds of a dry run.
    """

    status: Literal["", "pending", "running", "completed", "failed", "cancelled"] = ""
    outcome: Literal["", "failures"] | Outcome = ""
    type: str = ""
    tenant: str = ""
    error: str = ""
    user: str = ""
    request: str = ""
    payload: str = ""
    since: Since = "24h"
    at: datetime = NOT_GIVEN
    id: UUID = NOT_GIVEN
    notice: Text = ""

    @property
    def chosen(self) -> dict[str, str]:
        """What was chosen, as an address says it."""
        return {name: text for name, text in asdict(self).items() if name in CHOSEN}

    @property
    def asks_tenants(self) -> bool:
        """Whether the control schema alone cannot find these jobs."""
        return any(self.text(name) for name in OF_TENANTS)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Return the chosen outcomes; empty for all jobs."""
        return FAILURES if self.outcome == "failures" else (self.outcome,) if self.outcome else ()

    @property
    def before(self) -> Cursor | None:
        """The last job of the page before."""
        return Cursor(self.at, self.id) if self.at and self.id else None

    def text(self, name: str) -> str:
        """Return what stands in a field, as it can be looked for."""
        return searchable(getattr(self, name))

    def wanted(self, visit: OperatorVisit, *, until: datetime | None = None, waiting: bool = False) -> JobsWanted:
        """Return the jobs of the visitor's companies as they are looked for in the control schema.

        Raises Problem 400 if that is not enough: a filter that was passed over would let in every other job.
        """
        if self.asks_tenants:
            raise invalid([FieldProblem(name, "is not known here") for name in OF_TENANTS if self.text(name)])
        return JobsWanted(
            companies=visit.companies,
            tenants=self._one("tenant"),
            statuses=(self.status,) if self.status else (),
            outcomes=self.outcomes,
            types=self._one("type"),
            error=self.text("error") or None,
            since=self._since,
            until=until,
            waiting=waiting,
        )

    def within_tenants(self, limit: int) -> JobFilter:
        """Return the jobs as each tenant looks for them."""
        since = self._since
        return JobFilter(
            user_id=self.text("user") or None,
            statuses=(Status(self.status),) if self.status else (),
            outcomes=self.outcomes,
            types=self._one("type"),
            correlation_id=self.text("request") or None,
            text=self.text("payload") or None,
            made_from=first_id(since) if since else None,
            limit=limit,
        )

    def _one(self, name: str) -> tuple[str, ...]:
        text = self.text(name)
        return (text,) if text else ()

    @property
    def _since(self) -> datetime | None:
        window = SINCE[self.since]
        return services().clock() - window if window else None
