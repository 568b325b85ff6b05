"""Check payloads against the handlers' own dataclasses, and document them from the same declaration."""

import json
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from turno.errors import InvalidPayload
from turno.jobs.handler import JobHandler
from turno.web.http.problems import FieldProblem

# Beyond which pydantic is not asked for each: it makes some 100,000 of them a second, in the thread that holds the GIL.
MOST_NAMED = 1000
STRICT = ConfigDict(extra="forbid")
LONGEST_FIELD = 200


def _adapter(kind: Any) -> TypeAdapter[Any]:
    kind.__pydantic_config__ = STRICT
    return TypeAdapter(kind)


# Checks and documents a dataclass of ours, such as a body or a query: no unknown field.
model_adapter: Callable[[Any], TypeAdapter[Any]] = cache(_adapter)


class Payloads:
    """Holds a pydantic adapter for the payload of each handler."""

    def __init__(self, handlers: Sequence[type[JobHandler[Any]]]) -> None:
        self._adapters: dict[str, TypeAdapter[Any]] = {}
        for handler in handlers:
            for dataclass in dataclasses_in(handler.payload_type):
                # Pydantic's documented way to configure a dataclass of the standard library.
                dataclass.__pydantic_config__ = STRICT
            self._adapters[handler.type] = TypeAdapter(handler.payload_type)

    def adapter(self, job_type: str) -> TypeAdapter[Any]:
        """Return the adapter of a type's payload."""
        return self._adapters[job_type]

    def check(self, handler: type[JobHandler[Any]], value: Any) -> tuple[Any, list[FieldProblem]]:
        """Return the payload in its canonical JSON form, or everything that is wrong with it.

        Nothing is coerced and no unknown field accepted, at any depth; defaults are filled in.
        """
        adapter = self._adapters[handler.type]
        try:
            payload = adapter.validate_json(json.dumps(value), strict=True)
            handler.validate(payload)
        except ValidationError as error:
            return None, shape_problems(error, within=("payload",))
        except InvalidPayload as error:
            return None, [FieldProblem(f"payload.{p['field']}", p["problem"]) for p in error.problems]
        return adapter.dump_python(payload, mode="json"), []


def dataclasses_in(annotation: Any) -> Iterator[Any]:
    """Yield every dataclass that an annotation reaches, each once."""
    seen: set[Any] = set()
    waiting = [annotation]
    while waiting:
        current = waiting.pop()
        waiting += get_args(current)
        if is_dataclass(current) and current not in seen and not isinstance(current, types.GenericAlias):
            seen.add(current)
            hints = get_type_hints(current)
            waiting += [hints[field.name] for field in fields(current)]
            yield current


def shape_problems(error: ValidationError, *, within: tuple[str, ...]) -> list[FieldProblem]:
    """Return what does not fit a dataclass, each with its field's path, which begins with `within`."""
    if (count := error.error_count()) > MOST_NAMED:
        return [FieldProblem(".".join(within) or "body", f"has {count} problems; /openapi.json says what it takes")]
    found = error.errors(include_url=False, include_input=False)
    return [FieldProblem(".".join([*within, *map(str, one["loc"])])[:LONGEST_FIELD], _sentence(one)) for one in found]


def _sentence(problem: ErrorDetails) -> str:
    match problem["type"]:
        case "unexpected_keyword_argument":
            return "is not a field of this request"
        case "missing" | "missing_argument":
            return "is missing"
        case "value_error":
            return str(problem["ctx"]["error"])
        case "too_long":
            return f"takes at most {problem['ctx']['max_length']} items"
        case _:
            message = problem["msg"]
            return message[:1].lower() + message[1:]
