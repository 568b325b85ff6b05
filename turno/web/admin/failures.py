"""GET /admin/failures: dead letters of all tenants by error, and replaying many of them after a look at how many."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from flask import Response, request

from turno.dispatch.command_across import command_across
from turno.jobs.operator_command import CommandReport, OperatorCommand
from turno.store.operator import job_search
from turno.store.operator.job_search import Cursor, JobsWanted
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.http.problems import Kind, Problem
from turno.web.http.query import LONGEST_TEXT, NOT_GIVEN, Text, read_query
from turno.web.pages.drawing import draw, go
from turno.web.services import services

failures = OperatorPages("operator_failures", __name__)

GROUPS_SHOWN = 50
JOBS_SHOWN = 50
# Dead letters that one press replays, and that are looked at before: about a second's work.
AT_A_TIME = 500
Since = Literal["1h", "24h", "7d", "all"]
SINCE: dict[Since, timedelta | None] = {
    "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7), "all": None
}  # fmt: skip
RETRY = OperatorCommand(name="retry")
DISCARD = OperatorCommand(name="discard")
COMMANDS = {"retry": RETRY, "discard": DISCARD}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresQuery:
    """Which dead letters: of which error, type and tenant, and since when; a form sends empty ones, too."""

    error: str = ""
    type: str = ""
    tenant: str = ""
    since: Since = "24h"
    at: datetime = NOT_GIVEN
    id: UUID = NOT_GIVEN
    notice: Text = ""

    @property
    def chosen(self) -> dict[str, str]:
        """What was chosen, as an address says it."""
        return {name: text for name, text in asdict(self).items() if name in {"error", "type", "tenant", "since"}}


@failures.screen("/admin/failures")
def index(visit: OperatorVisit) -> Response:
    """List dead letters by error, or those of one error."""
    asked = read_query(request.args, FailuresQuery, others_ignored=True)
    wanted = _wanted(visit, asked)
    before = Cursor(asked.at, asked.id) if asked.at and asked.id else None
    with as_operator() as operator:
        groups = [] if asked.error else job_search.group_jobs(operator, wanted, "error", limit=GROUPS_SHOWN + 1)
        jobs = job_search.find_jobs(operator, wanted, before=before, limit=JOBS_SHOWN + 1)
    return draw(
        "turno/admin/failures.html",
        visit=visit,
        asked=asked,
        groups=groups[:GROUPS_SHOWN],
        many=len(groups) > GROUPS_SHOWN,
        jobs=jobs[:JOBS_SHOWN],
        after=jobs[JOBS_SHOWN - 1] if len(jobs) > JOBS_SHOWN else None,
    )


@failures.screen("/admin/failures/<name>")
def look(visit: OperatorVisit, name: str) -> Response:
    """Say what a replay, or a discard, of the chosen dead letters would do, with the button that does it."""
    command = _command(name)
    asked = read_query(request.args, FailuresQuery, others_ignored=True)
    until = services().clock()
    report = _across(visit, command, _wanted(visit, asked, until=until), dry_run=True)
    return draw(
        "turno/admin/replay.html",
        visit=visit,
        asked=asked,
        name=name,
        until=until.isoformat(),
        **_numbers(report),
    )


@failures.action("/admin/failures/<name>")
def do(visit: OperatorVisit, name: str) -> Response:
    """Replay or discard the chosen dead letters, those that the look at them counted."""
    command = _command(name)
    asked = read_query(request.form, FailuresQuery, others_ignored=True)
    until = asked.at or services().clock()
    report = _across(visit, command, _wanted(visit, asked, until=until), dry_run=False, through=asked.id)
    done = sum(report.changed.values())
    refused = sum(report.refused.values()) + len(report.troubles)
    return go(visit.to("/failures", **asked.chosen, notice=f"{name}-{done}-{refused}"))


def _command(name: str) -> OperatorCommand:
    if name not in COMMANDS:
        raise Problem(Kind.NOT_FOUND, "There is no such command for dead letters.")
    return COMMANDS[name]


def _wanted(visit: OperatorVisit, asked: FailuresQuery, *, until: datetime | None = None) -> JobsWanted:
    error, job_type, tenant = (
        text.strip().replace("\0", "")[:LONGEST_TEXT] for text in (asked.error, asked.type, asked.tenant)
    )
    window = SINCE[asked.since]
    return JobsWanted(
        companies=visit.companies,
        statuses=("failed",),
        types=[job_type] if job_type else (),
        tenants=[tenant] if tenant else (),
        error=error or None,
        since=services().clock() - window if window else None,
        until=until,
        waiting=True,
    )


def _across(
    visit: OperatorVisit, command: OperatorCommand, wanted: JobsWanted, *, dry_run: bool, through: UUID | None = None
) -> CommandReport:
    with as_operator() as operator:
        return command_across(
            operator,
            services().dispatcher,
            services().directory,
            command,
            wanted,
            by=visit.principal.user,
            correlation_id=str(uuid4()),
            dry_run=dry_run,
            through=through,
            limit=AT_A_TIME,
        )


def _numbers(report: CommandReport) -> dict[str, Any]:
    """Return what the report counts, as the page says it."""
    return {
        "changed": sum(report.changed.values()),
        "tenants": [(slug, many) for slug, many in report.tenants.most_common() if many],
        "refused": report.refused.most_common(),
        "troubles": sorted(report.troubles),
        "through": report.next_cursor,
    }
