"""The form of a recurring job, on the pages of schedules and of templates."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flask import request

from turno.errors import InvalidPayload
from turno.jobs.converter import converter
from turno.jobs.json_text import NotJson
from turno.jobs.payload import payload_text
from turno.web.api.recurring_job import RecurringJobBody
from turno.web.http.requests import field_problems
from turno.web.http.responses import FieldProblem, Kind, Problem, invalid
from turno.web.pages.localizer import Localizer
from turno.web.services import services

FIELDS = ("name", "type", "payload", "cron", "every", "zone", "spread", "missed", "priority", "queue")
NEW = {"missed": "once", "priority": "normal", "zone": "UTC", "payload": "{}"}
LONGEST_NUMBER = 9  # digits
FIELD_OF_KIND = {Kind.UNKNOWN_TYPE: "type", Kind.NOT_FOUND: "name", Kind.REFUSED: "name"}


def save_form(save: Callable[[RecurringJobBody], str]) -> list[FieldProblem]:
    """Save the recurring job of the present form; returns the problems of its fields, none if it was saved."""
    try:
        word = save(_body(request.form))
    except Problem as problem:
        if problem.errors:
            return [*problem.errors]
        if problem.kind not in FIELD_OF_KIND:
            raise
        return [FieldProblem(FIELD_OF_KIND[problem.kind], problem.detail)]
    return [FieldProblem("name", "is taken: choose another name")] if word == "exists" else []


def form_fields(values: Mapping[str, Any], problems: list[FieldProblem], localizer: Localizer) -> dict[str, Any]:
    """Return the context of the form: the values of its fields, their problems, and the choices."""
    wrong: dict[str, str] = {}
    for problem in problems:
        field, _, within = problem.field.partition(".")
        text = f"{within}: {problem.problem}" if within else problem.problem
        wrong[field] = f"{wrong[field]}; {text}" if field in wrong else text
    return {
        "saved": {field: "" if values.get(field) is None else values[field] for field in FIELDS},
        "wrong": wrong,
        "types": {handler.type: localizer.title(handler.type) for handler in services().registry.handlers},
        "queues": {queue: queue for queue in services().registry.queues},
    }


def _body(form: Mapping[str, str]) -> RecurringJobBody:
    """Return the body that a form has; an empty field counts as left out. Raises Problem 400 with all problems."""
    given: dict[str, Any] = {"type": form.get("type", "")}
    for name in ("cron", "zone", "missed", "priority", "queue"):
        if text := form.get(name, "").strip():
            given[name] = text
    for name in ("every", "spread"):
        if text := form.get(name, "").strip():
            whole = text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
            given[name] = int(text) if whole else text
    try:
        payload = payload_text(form.get("payload", "").strip() or "{}")
        body: RecurringJobBody = converter(RecurringJobBody).convert(given | {"payload": {}})
    except NotJson as error:
        raise invalid([FieldProblem("payload", str(error))]) from error
    except InvalidPayload as error:
        raise invalid(field_problems(error)) from error
    return replace(body, payload=payload)
