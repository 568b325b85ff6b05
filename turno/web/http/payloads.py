"""Check payloads, bodies and queries against dataclasses, and document them from the same declaration."""

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from turno.errors import InvalidPayload
from turno.jobs.handler import JobHandler
from turno.jobs.payload_check import LONGEST_FIELD, STRICT, check_payload, problems_of
from turno.web.http.problems import FieldProblem


def _adapter(kind: Any) -> TypeAdapter[Any]:
    kind.__pydantic_config__ = STRICT
    return TypeAdapter(kind)


# Checks and documents a dataclass of ours, such as a body or a query: no unknown field.
model_adapter: Callable[[Any], TypeAdapter[Any]] = cache(_adapter)


def check(handler: type[JobHandler[Any]], value: Any) -> tuple[Any, list[FieldProblem]]:
    """Return a payload in its canonical JSON form, or everything that is wrong with it."""
    try:
        return check_payload(handler, value), []
    except InvalidPayload as error:
        return None, [_field_problem(one, "payload") for one in error.problems]


def shape_problems(error: ValidationError) -> list[FieldProblem]:
    """Return what does not fit a dataclass, each with its field's path."""
    return [_field_problem(one) for one in problems_of(error)]


def _field_problem(problem: dict[str, str], *within: str) -> FieldProblem:
    path = ".".join(filter(None, (*within, problem["field"])))
    return FieldProblem(path[:LONGEST_FIELD] or "body", problem["problem"])
