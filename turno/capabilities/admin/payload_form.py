"""A payload as fields of a form: texts stay texts, every other value is JSON."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from turno.jobs.handler import JobHandler
from turno.jobs.json_text import NotJson, parse_json
from turno.jobs.redaction import LEFT_OUT
from turno.web.requests import check
from turno.web.responses import FieldProblem, invalid

PREFIX = "payload."  # of the name of each field, as in the problems of a payload
_LEFT_EMPTY = object()


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
    found = dict[str, list[str]]()
    for problem in problems:
        payload, name, within = [*problem.field.split(".", 2), "", ""][:3]
        text = f"{within}: {problem.problem}" if within else problem.problem
        found.setdefault(f"{payload}.{name}" if name else "payload", []).append(text)
    return {field: "; ".join(texts) for field, texts in found.items()}


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
