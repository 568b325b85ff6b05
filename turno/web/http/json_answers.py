"""Turn values into JSON answers."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from flask import Response, current_app
from flask.json.provider import DefaultJSONProvider


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if is_dataclass(value) and not isinstance(value, type):
        # A field that would be a word of Python ends in `_`, as is the custom there.
        return {field.name.rstrip("_"): getattr(value, field.name) for field in fields(value)}
    return DefaultJSONProvider.default(value)


def dumps(value: Any) -> str:
    """Return `value` as the JSON that every answer is written in: one line of ASCII."""
    return json.dumps(value, default=_plain)


class JsonAnswers(DefaultJSONProvider):
    """Writes moments as RFC 3339 in UTC and dataclasses as objects, in the order of their fields."""

    compact = True

    def dumps(self, obj: Any, **_options: Any) -> str:
        """Return `obj` as `dumps` of this module writes it."""
        return dumps(obj)


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that carries `body` as JSON."""
    return Response(current_app.json.dumps(body), status, headers, mimetype="application/json")
