"""/admin/changes/<name>: change many jobs of many tenants, after a look at how many of whom."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from flask import Response, request

from turno.dispatch.command_across import command_across
from turno.jobs.job import Priority
from turno.jobs.label import FAILURES
from turno.jobs.operator_command import OF_DEAD_LETTERS, CommandReport, OperatorCommand
from turno.store.operator.job_search import JobsWanted
from turno.web.admin.jobs_asked import JobsAsked
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.http.query import read_query
from turno.web.pages.drawing import draw, go
from turno.web.services import services

job_changes = OperatorPages("operator_changes", __name__)

# Jobs that one press changes, and that are looked at before: about a second's work.
AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class Change:
    """A command, and the statuses of its jobs; without statuses it is for failures."""

    command: OperatorCommand
    statuses: frozenset[str] = frozenset()


CHANGES = {
    "retry": Change(OperatorCommand(name="retry")),
    "discard": Change(OperatorCommand(name="discard")),
    "cancel": Change(OperatorCommand(name="cancel"), frozenset({"pending", "running"})),
    "run-now": Change(OperatorCommand(name="reschedule"), frozenset({"pending"})),
    "urgent": Change(OperatorCommand(name="reprioritise", priority=Priority.URGENT), frozenset({"pending"})),
    "low": Change(OperatorCommand(name="reprioritise", priority=Priority.LOW), frozenset({"pending"})),
}


def changes_of(asked: JobsAsked) -> list[str]:
    """Return the changes that are possible for each of these jobs."""
    failures = asked.status == "failed" or (asked.outcomes and set(asked.outcomes) <= set(FAILURES))
    return [
        name
        for name, change in CHANGES.items()
        if (asked.status in change.statuses and not asked.outcomes if change.statuses else failures)
    ]


@job_changes.screen("/admin/changes/<name>")
def look(visit: OperatorVisit, name: str) -> Response:
    """Say what the change would do with the chosen jobs, with the button that does it."""
    change = _change(name)
    asked = read_query(request.args, JobsAsked, others_ignored=True)
    until = services().clock()
    report = _across(visit, change, asked.wanted(visit, until=until), dry_run=True)
    return draw(
        "turno/admin/change.html",
        visit=visit,
        asked=asked,
        name=name,
        back=_back(visit, change, asked),
        until=until.isoformat(),
        **_numbers(report),
    )


@job_changes.action("/admin/changes/<name>")
def do(visit: OperatorVisit, name: str) -> Response:
    """Change the chosen jobs, those that the look at them counted."""
    change = _change(name)
    asked = read_query(request.form, JobsAsked, others_ignored=True)
    until = asked.at or services().clock()
    report = _across(visit, change, asked.wanted(visit, until=until), dry_run=False, through=asked.id)
    done = sum(report.changed.values())
    refused = sum(report.refused.values()) + len(report.troubles)
    return go(_back(visit, change, asked, notice=f"{name}.{done}.{refused}"))


def _change(name: str) -> Change:
    if name not in CHANGES:
        raise Problem(Kind.NOT_FOUND, "There is no such command for jobs.")
    return CHANGES[name]


def _back(visit: OperatorVisit, change: Change, asked: JobsAsked, **more: str) -> str:
    path = "/failures" if change.command.name in OF_DEAD_LETTERS else "/jobs"
    return visit.to(path, **asked.chosen, **more)


def _across(
    visit: OperatorVisit, change: Change, wanted: JobsWanted, *, dry_run: bool, through: UUID | None = None
) -> CommandReport:
    try:
        with as_operator() as operator:
            return command_across(
                operator,
                services().dispatcher,
                services().directory,
                change.command,
                wanted,
                by=visit.principal.user,
                correlation_id=str(uuid4()),
                dry_run=dry_run,
                through=through,
                limit=AT_A_TIME,
            )
    except ValueError as error:  # a status that this command is not about
        field, _, problem = str(error).partition(": ")
        raise invalid([FieldProblem(field, problem)]) from None


def _numbers(report: CommandReport) -> dict[str, Any]:
    """Return what the report counts, as the page says it."""
    return {
        "changed": sum(report.changed.values()),
        "of_items": report.of_items,
        "items": report.items,
        "tenants": [(slug, many) for slug, many in report.tenants.most_common() if many],
        "refused": report.refused.most_common(),
        "troubles": sorted(report.troubles),
        "through": report.next_cursor,
    }
