"""Read a JSON body into the dataclass that documents it."""

import json
from dataclasses import fields
from typing import Any, TypeVar

from flask import Request
from pydantic import ValidationError

from turno.web.http.large_body import one_at_a_time
from turno.web.http.payloads import model_adapter, shape_problems
from turno.web.http.problems import FieldProblem, invalid
from turno.web.http.request_body import read_json_object

B = TypeVar("B")


def read_changes(request: Request, kind: type[Any]) -> dict[str, Any]:
    """Return the fields that a PATCH names, checked against a dataclass all of whose fields may be left out.

    Raises Problem as `read_body` does, and 400 for a body that names none.
    """
    named = read_json_object(request)
    try:
        body = model_adapter(kind).validate_json(json.dumps(named), strict=True)
    except ValidationError as error:
        raise invalid(shape_problems(error)) from error
    if not named:
        raise invalid([FieldProblem("body", f"must name some of {', '.join(one.name for one in fields(kind))}")])
    return {name: getattr(body, name) for name in named}


def read_body(request: Request, kind: type[B]) -> B:
    """Return the request's body, nothing in it converted.

    Raises Problem 413, 415, or 400 with everything that is wrong with it.
    """
    try:
        with one_at_a_time(request):
            body: B = model_adapter(kind).validate_json(json.dumps(read_json_object(request)), strict=True)
    except ValidationError as error:
        raise invalid(shape_problems(error)) from error
    return body
