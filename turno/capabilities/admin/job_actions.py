"""The actions of the operator's job page: replay, discard, cancel, and run again with the same or an edited payload."""

import shlex
from collections.abc import Sequence
from uuid import UUID, uuid4

from flask import Response, request

from turno.capabilities.admin.payload_form import PREFIX, by_field, edited, texts_of
from turno.jobs.job import Status
from turno.jobs.operator_command import OperatorCommand
from turno.store.api import jobs as stored
from turno.web.admission import Scope
from turno.web.api.job_body import JobBody
from turno.web.api.job_commands import rerun_job
from turno.web.api.jobs import find_job
from turno.web.api.submit import known_handler
from turno.web.pages.drawing import draw, go
from turno.web.pages.job_forms import form_key
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import check, read_id
from turno.web.responses import FieldProblem, Kind, Problem, no_such_job
from turno.web.routes import Call
from turno.web.services import as_operator, services

job_actions = OperatorPages("operator_job_actions", __name__)

COMMANDS = {
    "retry": OperatorCommand(name="retry"),
    "discard": OperatorCommand(name="discard"),
    "cancel": OperatorCommand(name="cancel", reason="cancelled by an operator"),
}


def actions_of(visit: OperatorVisit, tenant: str, body: JobBody) -> dict[str, str]:
    """Return the actions that the state of a job allows, each with its command; none for a reader."""
    if not visit.principal.may_change:
        return {}
    if not body.status.ended:
        names = ["cancel"] if body.label != "cancelling" else []
    else:
        unfinished = body.status is not Status.COMPLETED or body.progress.failed or (body.parts and body.parts.failed)
        names = ["retry"] if unfinished and body.successor_id is None else []
        names += ["discard"] if names and _is_open_failure(body) else []
        names += ["rerun"]
    return {name: _command(name, tenant, body.job_id) for name in names}


@job_actions.form("/admin/jobs/<tenant>/<job_id>/<name>")
def act(visit: OperatorVisit, tenant: str, job_id: str, name: str) -> Response:
    """Change one job; the audit has the command and the visitor."""
    if name not in COMMANDS:
        raise Problem(Kind.NOT_FOUND, "There is no such command for a job.")
    scope, wanted = visit.within(tenant), read_id(job_id, no_such_job())
    (answer,) = services().dispatcher.command(
        scope.tenant,
        COMMANDS[name],
        [wanted],
        by=visit.principal.user,
        correlation_id=str(uuid4()),
        within_limits=True,
    )
    if answer.verdict == "unknown":
        raise no_such_job()
    return go(visit.to(f"/jobs/{tenant}/{answer.made or job_id}", notice=answer.verdict))


@job_actions.page("/admin/jobs/<tenant>/<job_id>/rerun")
def edit(visit: OperatorVisit, tenant: str, job_id: str) -> Response:
    """Show the payload of an ended job in a form that submits the job again."""
    scope = visit.within(tenant)
    row = find_job(Call(scope, ""), job_id)
    _, problems = check(known_handler(row["type"]), row["payload"]) if _is_editable(row) else (None, [])
    return _form(visit, tenant, row, _texts(scope, row), problems)


@job_actions.form("/admin/jobs/<tenant>/<job_id>/rerun")
def rerun(visit: OperatorVisit, tenant: str, job_id: str) -> Response:
    """Submit an ended job again, as a job of the visitor."""
    scope = visit.within(tenant)
    call = Call(scope, str(uuid4()))
    row = find_job(call, job_id)
    texts, payload = _texts(scope, row), None
    sent = {name: text.replace("\r\n", "\n") for name, text in request.form.items() if name.startswith(PREFIX)}
    try:
        if sent and _is_editable(row):
            payload = edited(known_handler(row["type"]), row["payload"], texts, sent)
        verdict = rerun_job(call, row, payload, form_key())
    except Problem as problem:
        if not problem.errors:
            raise
        return _form(visit, tenant, row, texts | sent, problem.errors)
    return go(visit.to(f"/jobs/{tenant}/{verdict.job_id}", notice=verdict.word))


def _form(
    visit: OperatorVisit, tenant: str, row: stored.Row, texts: dict[str, str], problems: Sequence[FieldProblem]
) -> Response:
    wrong = by_field(problems)
    missing = {name: "" for name in wrong if name.startswith(PREFIX)}
    return draw(
        "turno/admin/rerun.html",
        status=Kind.INVALID_REQUEST.status if request.method == "POST" else 200,
        visit=visit,
        live=False,
        tenant=tenant,
        job=row,
        key=uuid4(),
        texts=missing | texts,
        wrong=wrong,
        command=_command("rerun", tenant, row["id"]),
    )


def _texts(scope: Scope, row: stored.Row) -> dict[str, str]:
    """Return the texts of the fields, without the secrets that the visitor may not read."""
    return texts_of(scope.seen(row)["payload"])


def _is_editable(row: stored.Row) -> bool:
    return isinstance(row["payload"], dict)


def _command(name: str, tenant: str, job_id: UUID) -> str:
    return f"turno job {name} --tenant {shlex.quote(tenant)} {job_id}"


def _is_open_failure(body: JobBody) -> bool:
    with as_operator() as operator:
        row = operator.execute("SELECT closed_as FROM failed_jobs WHERE job_id = %s", (body.job_id,)).fetchone()
    return row == (None,)
