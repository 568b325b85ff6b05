"""Check payloads and bodies against the types that document them."""

from typing import Any

from turno.errors import InvalidPayload
from turno.jobs.handler import JobHandler
from turno.jobs.payload import check_payload
from turno.web.http.problems import FieldProblem

LONGEST_FIELD = 200


def check(handler: type[JobHandler[Any]], value: Any) -> tuple[Any, list[FieldProblem]]:
    """Return a payload in its plain JSON form, or all of its problems."""
    try:
        return check_payload(handler, value), []
    except InvalidPayload as error:
        return None, field_problems(error, "payload")


def field_problems(error: InvalidPayload, *within: str) -> list[FieldProblem]:
    """Return the problems of a body, or of the part `within` it, each with its field's path."""
    return [_field_problem(problem, *within) for problem in error.problems]


def _field_problem(problem: dict[str, str], *within: str) -> FieldProblem:
    path = ".".join(filter(None, (*within, problem["field"])))
    return FieldProblem(path[:LONGEST_FIELD] or "body", problem["problem"])
