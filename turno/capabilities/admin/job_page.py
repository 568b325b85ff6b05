"""/admin/jobs/<tenant>/<id> and /api/admin/jobs/<id>/logs: one job's whole life, its log, and the commands for it."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any
from uuid import UUID, uuid4

from flask import Response, request

from turno.jobs.error_record import without_our_frames
from turno.jobs.handler import JobHandler
from turno.jobs.job import Status
from turno.jobs.json_text import NotJson, parse_json
from turno.jobs.operator_command import OperatorCommand
from turno.jobs.redaction import LEFT_OUT
from turno.store.api import jobs as stored
from turno.web.admission import Scope
from turno.web.api.job_body import JobBody, error_body, job_body
from turno.web.api.job_commands import rerun_job
from turno.web.api.jobs import find_job
from turno.web.api.submit import known_handler
from turno.web.pages.drawing import draw, go, written
from turno.web.pages.job_forms import form_key
from turno.web.pages.localizer import of_job
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import AFTER, NOT_GIVEN, PageSize, Text, check, described, read_id
from turno.web.responses import FieldProblem, Kind, Problem, from_row, invalid, no_such_job, page_of
from turno.web.routes import Call, Routes
from turno.web.services import as_operator, at, services

admin_logs = Routes("admin_logs", __name__, tag="administration")
job_life = OperatorPages("operator_job", __name__)

ATTEMPTS_SHOWN = 50
ITEMS_SHOWN = 50
EVENTS_SHOWN = 200
LINES_SHOWN = 200
PREFIX = "payload."  # of the name of each field, as in the problems of a payload
_LEFT_EMPTY = object()
COMMANDS = {
    "retry": OperatorCommand(name="retry"),
    "rest": OperatorCommand(name="rerun"),
    "discard": OperatorCommand(name="discard"),
    "cancel": OperatorCommand(name="cancel", reason="cancelled by an operator"),
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; `number` is its position in the attempt's log, and a gap marks omitted lines."""

    attempt: int
    number: int
    at: datetime
    level: str
    logger: str
    line: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order. A `cursor`, such as 1.20, has the attempt and number of a line: the next page follows it."""

    lines: list[LogLine]
    next_cursor: str | None


# An attempt and a number that the columns can hold.
LogCursor = Annotated[str, described(AFTER, pattern=r"^[0-9]{1,9}\.[0-9]{1,18}$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """A page of a job's log."""

    cursor: LogCursor = NOT_GIVEN
    limit: PageSize = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeQuery:
    """The ledger position behind which the page starts, and the verdict of an action."""

    after: Text = ""
    notice: Text = ""


@admin_logs.operation("GET /api/admin/jobs/<job_id>/logs", problems=(Kind.NOT_FOUND,), operator=True)
def logs(call: Call, query: LogQuery, job_id: str) -> LogPage:
    """List the log lines of a job's attempts.

    The newest lines of each attempt, up to `job_log_lines` of TURNO_LIMITS. Secrets are redacted for callers without
    the role admin.
    """
    wanted = read_id(job_id, no_such_job())
    with call.scope.reading() as reader:
        if not stored.exists(reader, wanted, None):
            raise no_such_job()
        attempt, _, number = (query.cursor or "0.0").partition(".")
        rows = stored.logs(reader, wanted, after=(int(attempt), int(number)), limit=query.limit + 1)
    seen = [call.scope.seen(row) | {"cursor": f"{row['attempt']}.{row['number']}"} for row in rows]
    return LogPage(*page_of(seen, query.limit, partial(from_row, LogLine), "cursor"))


@job_life.page("/admin/jobs/<tenant>/<job_id>")
def show(visit: OperatorVisit, tenant: str, job_id: str, query: LifeQuery) -> Response:
    """Show all that is known of one job."""
    wanted = read_id(job_id, no_such_job())
    scope = visit.within(tenant)
    with scope.reading() as reader:
        row = stored.find(reader, wanted, None)
        if row is None:
            raise no_such_job()
        payload = stored.payloads(reader, [wanted]).get(wanted)
        attempts = stored.attempts(reader, wanted, limit=ATTEMPTS_SHOWN)
        items = stored.items(reader, wanted, None, query.after, ITEMS_SHOWN + 1)
        events = stored.events(reader, wanted, limit=EVENTS_SHOWN)
        sections = [section(reader, visit, wanted) for section in services().operator_job_sections]
        lines = stored.newest_logs(reader, wanted, LINES_SHOWN)
        row = scope.seen(row)
        attempts, items, lines = ([scope.seen(entry) for entry in some] for some in (attempts, items, lines))
    body = job_body(row, at(""), operator=True)
    if payload is not None and scope.hides:
        payload = services().redaction.value(payload, body.type)
    return draw(
        "turno/admin/job.html",
        visit=visit,
        tenant=tenant,
        job=body,
        title=visit.localizer.title(body.type),
        happened=_happened(row, body, visit),
        attempts=[_attempt(attempt) for attempt in attempts],
        items=[item | {"error": error_body(item["error"], operator=True)} for item in items[:ITEMS_SHOWN]],
        after=items[ITEMS_SHOWN - 1]["key"] if len(items) > ITEMS_SHOWN else None,
        events=[event | {"reason_text": of_job(event["reason"], visit.localizer)} for event in events],
        sections=sections,
        logs=[(attempt, list(some)) for attempt, some in groupby(lines, key=itemgetter("attempt"))],
        payload=None if payload is None else written(payload),
        result=None if body.result is None else written(body.result),
        curl=_curl(tenant, body),
        actions=actions_of(visit, tenant, body),
        query=query,
    )


def _happened(row: stored.Row, body: JobBody, visit: OperatorVisit) -> str:
    """Return the events that explain the job's state, as far as they are recorded."""
    if body.error is not None:
        return f"{body.error.class_}: {body.error.message}"
    return of_job(row["reason"], visit.localizer) or body.waiting_for or ""


def _attempt(row: stored.Row) -> dict[str, Any]:
    error = error_body(row["error"], operator=True)
    trace = without_our_frames(error.traceback) if error and error.traceback else None
    lasted = None if row["finished_at"] is None else (row["finished_at"] - row["started_at"]).total_seconds()
    return row | {"error": error, "traceback": trace, "lasted": lasted}


def _curl(tenant: str, body: JobBody) -> str:
    """Return the command that requests this job from the API; the caller adds a token."""
    address = f"{request.host_url.rstrip('/')}{body.links['self']}"
    return f'curl -H "Authorization: Bearer $TOKEN" -H {shlex.quote(f"X-Schema: {tenant}")} {shlex.quote(address)}'


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
        names += ["rest"] if not unfinished and body.progress.total and body.successor_id is None else []
        names += ["rerun"]
    return {name: _command(name, tenant, body.job_id) for name in names}


@job_life.form("/admin/jobs/<tenant>/<job_id>/<name>")
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


@job_life.page("/admin/jobs/<tenant>/<job_id>/rerun")
def edit(visit: OperatorVisit, tenant: str, job_id: str) -> Response:
    """Show the payload of an ended job in a form that submits the job again."""
    scope = visit.within(tenant)
    row = find_job(Call(scope, ""), job_id)
    _, problems = check(known_handler(row["type"]), row["payload"]) if _is_editable(row) else (None, [])
    return _form(visit, tenant, row, _texts(scope, row), problems)


@job_life.form("/admin/jobs/<tenant>/<job_id>/rerun")
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
    verb = "rerun --skip-finished" if name == "rest" else name
    return f"turno job {verb} --tenant {shlex.quote(tenant)} {job_id}"


def _is_open_failure(body: JobBody) -> bool:
    with as_operator() as operator:
        row = operator.execute("SELECT closed_as FROM failed_jobs WHERE job_id = %s", (body.job_id,)).fetchone()
    return row == (None,)


def texts_of(payload: Any) -> dict[str, str]:
    """Return the text of each field of a payload, by the name of its field in the form."""
    fields = payload if isinstance(payload, dict) else {}
    return {PREFIX + name: _text(value) for name, value in fields.items()}


def edited(
    handler: type[JobHandler[Any]], payload: Mapping[str, Any], texts: Mapping[str, str], sent: Mapping[str, str]
) -> dict[str, Any]:
    """Return the payload with the values of the sent fields; a field with its text of `texts` keeps its value.

    A changed field is text or JSON, as its type takes it; an empty field that takes no text is left out.
    Raises Problem 400 for a changed field with a hidden secret.
    """
    changed = {name: text for name, text in sent.items() if text != texts.get(name, "")}
    if hidden := [name for name, text in changed.items() if LEFT_OUT in text and LEFT_OUT in texts.get(name, "")]:
        raise invalid([FieldProblem(name, f"has hidden text; replace each {LEFT_OUT}") for name in hidden])
    as_text = {field.removeprefix(PREFIX): text for field, text in changed.items()}
    as_json = {name: _parsed(text) for name, text in as_text.items()}
    first = as_json | {name: text for name, text in as_text.items() if isinstance(payload.get(name), str)}
    second = {name: as_text[name] if value is as_json[name] else as_json[name] for name, value in first.items()}
    values = {**payload, **first}
    for others in (second, first):  # the first if both are refused, for its problems
        refused = _refused(handler, values)
        values |= {name: value for name, value in others.items() if name in refused}
    return _given(values)


def _refused(handler: type[JobHandler[Any]], values: Mapping[str, Any]) -> set[str]:
    _, problems = check(handler, _given(values))
    return {field.removeprefix(PREFIX) for field in by_field(problems)}


def by_field(problems: Iterable[FieldProblem]) -> dict[str, str]:
    """Return the problems of each field, by its name in the form; of the payload as a whole by "payload"."""
    texts_by_field = dict[str, list[str]]()
    for problem in problems:
        payload, name, within = [*problem.field.split(".", 2), "", ""][:3]
        text = f"{within}: {problem.problem}" if within else problem.problem
        texts_by_field.setdefault(f"{payload}.{name}" if name else "payload", []).append(text)
    return {field: "; ".join(texts) for field, texts in texts_by_field.items()}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not _LEFT_EMPTY}


def _parsed(text: str) -> Any:
    try:
        return parse_json(text) if text.strip() else _LEFT_EMPTY
    except NotJson:
        return text


def _text(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("\r\n", "\n")
