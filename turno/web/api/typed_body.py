"""Read a JSON body into the dataclass that documents it."""

import json
from typing import TypeVar

from flask import Request
from pydantic import ValidationError

from turno.web.http.large_body import one_at_a_time
from turno.web.http.payloads import model_adapter, shape_problems
from turno.web.http.problems import invalid
from turno.web.http.request_body import read_json_object

B = TypeVar("B")


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
