"""Read a JSON body into the dataclass that documents it."""

from dataclasses import fields
from typing import Any, TypeVar

from flask import Request

from turno.errors import InvalidPayload
from turno.jobs.converter import converter
from turno.web.http.large_body import one_at_a_time
from turno.web.http.payloads import field_problems
from turno.web.http.problems import FieldProblem, invalid
from turno.web.http.request_body import JsonBody, read_json_object

B = TypeVar("B")


def read_changes(request: Request, kind: type[Any]) -> dict[str, Any]:
    """Return the fields that a PATCH names, checked against a dataclass all of whose fields may be left out.

    Raises Problem as `read_body` does, and 400 for a body that names none.
    """
    body = read_json_object(request)
    changes = _loaded(body, kind)
    if not body.value:
        raise invalid([FieldProblem("body", f"must name some of {', '.join(one.name for one in fields(kind))}")])
    return {name: getattr(changes, name) for name in body.value}


def read_body(request: Request, kind: type[B]) -> B:
    """Return the request's body, nothing in it converted.

    Raises Problem 413, 415, or 400 with everything that is wrong with it.
    """
    with one_at_a_time(request):
        loaded: B = _loaded(read_json_object(request), kind)
    return loaded


def _loaded(body: JsonBody, kind: Any) -> Any:
    try:
        return converter(kind).load(body.text)
    except InvalidPayload as error:
        raise invalid(field_problems(error)) from error
