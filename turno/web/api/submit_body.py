"""Turn a POST into a submission, or into the full list of what is wrong with it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Request

from turno.dispatch.dispatcher import Submission
from turno.errors import UnknownJobType
from turno.jobs.handler import JobHandler
from turno.jobs.job import Priority
from turno.store.api import jobs as stored
from turno.tenancy.identity.session import as_api
from turno.web.http.large_body import one_at_a_time
from turno.web.http.problems import FieldProblem, Kind, Problem, invalid
from turno.web.http.request_body import read_json_object
from turno.web.http.request_headers import idempotency_key, trace_context
from turno.web.routes import Call
from turno.web.services import services

FIELDS = ("payload", "run_at", "priority", "expires_at")
FARTHEST = timedelta(days=366)
# What is due for longer goes before the rest of its tenant, and counts as having waited since.
LONGEST_PAST = timedelta(days=1)
RFC_3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})", re.ASCII)
WORDS = {priority.word: priority for priority in Priority}


def read_submission(request: Request, call: Call, job_type: str) -> Submission:
    """Return what the request asks for, checked to the last field.

    Raises Problem: 422 for an unknown type, 413 and 415 for a body that is not read, 400 with every
    problem for the rest. Times that were in order when this Idempotency-Key was first used still are: whoever lost
    the first answer gets it however late.
    """
    handler = _handler(job_type)
    with one_at_a_time(request):
        body = read_json_object(request)
        problems = [FieldProblem(name[:200], "is not a field of this request") for name in body if name not in FIELDS]
        payload = _payload(handler, body, problems)
    priority = _priority(body, problems)
    run_at, expires_at = _moment(body, "run_at", problems), _moment(body, "expires_at", problems)
    key = idempotency_key(request.headers)
    untimely = _untimely(run_at, expires_at)
    if problems or (untimely and not _used(call, handler.type, key)):
        raise invalid(problems + untimely)
    return Submission(
        handler=handler,
        payload=payload,
        user_id=call.scope.principal.user,
        priority=priority,
        run_at=run_at,
        expires_at=expires_at,
        idempotency_key=key,
        correlation_id=call.correlation_id,
        trace_context=trace_context(request.headers),
    )


def _handler(job_type: str) -> type[JobHandler[Any]]:
    try:
        return services().registry.load(job_type)
    except UnknownJobType:
        raise Problem(Kind.UNKNOWN_TYPE, "No job has this type; /openapi.json lists the types.") from None


def _payload(handler: type[JobHandler[Any]], body: dict[str, Any], problems: list[FieldProblem]) -> Any:
    if "payload" not in body:
        problems.append(FieldProblem("payload", "is missing"))
        return None
    payload, found = services().payloads.check(handler, body["payload"])
    problems += found
    return payload


def _priority(body: dict[str, Any], problems: list[FieldProblem]) -> Priority:
    word = body.get("priority", Priority.NORMAL.word)
    if not isinstance(word, str) or word not in WORDS:
        problems.append(FieldProblem("priority", f"must be one of {', '.join(WORDS)}"))
        return Priority.NORMAL
    return WORDS[word]


def _untimely(run_at: datetime | None, expires_at: datetime | None) -> list[FieldProblem]:
    """Return what only the clock has against these times."""
    now = services().clock()
    problems = []
    if run_at and not now - LONGEST_PAST < run_at <= now + FARTHEST:
        problems.append(FieldProblem("run_at", "must be at most one year ahead and one day past"))
    if expires_at and expires_at <= max(now, run_at or now):
        problems.append(FieldProblem("expires_at", "must be in the future and after run_at"))
    elif expires_at and expires_at > max(now, run_at or now) + FARTHEST:
        problems.append(FieldProblem("expires_at", "must be at most one year after run_at"))
    return problems


def _used(call: Call, job_type: str, key: str | None) -> bool:
    if key is None:
        return False
    with services().connection() as connection, as_api(connection, call.scope.tenant) as reader:
        return stored.find_by_key(reader, call.scope.principal.user, job_type, key) is not None


def _moment(body: dict[str, Any], name: str, problems: list[FieldProblem]) -> datetime | None:
    if name not in body:
        return None
    try:
        return _parse_moment(body[name])
    except (ValueError, OverflowError):
        problems.append(FieldProblem(name, "must be a date and time with offset, such as 2030-01-31T09:00:00-03:00"))
        return None


def _parse_moment(value: Any) -> datetime:
    if not isinstance(value, str) or not RFC_3339.fullmatch(value.upper()):
        raise ValueError
    return datetime.fromisoformat(value.upper()).astimezone(UTC)
