"""Turn values and stored rows into JSON answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

from flask import Response
from flask.json.provider import DefaultJSONProvider

from turno.jobs.moment import written


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return written(value, "auto")
    if is_dataclass(value) and not isinstance(value, type):
        # A field that would be a word of Python ends in `_`, as is the custom there.
        return {field.name.rstrip("_"): getattr(value, field.name) for field in fields(value)}
    return DefaultJSONProvider.default(value)


def dumps(value: Any) -> str:
    """Return `value` as the JSON that every answer is written in: one line of ASCII."""
    return json.dumps(value, default=_plain)


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that carries `body` as JSON."""
    return Response(dumps(body), status, headers, mimetype="application/json")


B = TypeVar("B")


def from_row(kind: type[B], row: Mapping[str, Any], **computed: Any) -> B:
    """Return a body: a field that is not `computed` has the value of the row's column of the same name."""
    stored = {field.name: row[field.name] for field in fields(cast("Any", kind)) if field.name not in computed}
    return kind(**stored, **computed)


def page_of(
    rows: Sequence[Mapping[str, Any]], limit: int, body: Callable[[Any], B], cursor: str
) -> tuple[list[B], Any]:
    """Return the bodies of at most `limit` rows, and the last one's column `cursor` if there are more rows."""
    shown = rows[:limit]
    return [body(row) for row in shown], shown[-1][cursor] if len(rows) > limit else None
