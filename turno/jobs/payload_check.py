"""Check a payload against its handler's dataclass, before a row exists; what workers never load."""

import json
import types
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, to_jsonable_python

from turno.errors import InvalidPayload
from turno.jobs.handler import JobHandler

# Beyond which pydantic is not asked for each: it makes some 100,000 of them a second, in the thread that holds the GIL.
MOST_NAMED = 1000
STRICT = ConfigDict(extra="forbid")
LONGEST_FIELD = 200


@cache
def payload_adapter(handler: type[JobHandler[Any]]) -> TypeAdapter[Any]:
    """Return what checks and documents a handler's payload: no unknown field, at any depth."""
    for dataclass in dataclasses_in(handler.payload_type):
        # Pydantic's documented way to configure a dataclass of the standard library.
        dataclass.__pydantic_config__ = STRICT
    return TypeAdapter(handler.payload_type)


def check_payload(handler: type[JobHandler[Any]], value: Any) -> Any:
    """Return the payload in its canonical JSON form; raises InvalidPayload with everything that is wrong with it.

    Nothing is coerced but what JSON cannot say, such as a date; defaults are filled in. `value` is a mapping or the
    payload's own dataclass.
    """
    adapter = payload_adapter(handler)
    try:
        payload = adapter.validate_json(json.dumps(value, default=to_jsonable_python), strict=True)
    except ValidationError as error:
        raise InvalidPayload(problems_of(error)) from None
    except (PydanticSerializationError, TypeError) as error:
        raise InvalidPayload([{"field": "payload", "problem": str(error)}]) from None
    handler.validate(payload)
    return adapter.dump_python(payload, mode="json")


def check_event(handlers: Iterable[type[JobHandler[Any]]], event: str, data: Any) -> Any:
    """Return the data as JSON; raises InvalidPayload naming field and handler if a subscriber would refuse it."""
    for handler in handlers:
        if event in handler.subscribes:
            try:
                check_payload(handler, data)
            except InvalidPayload as refusal:
                raise InvalidPayload(
                    [{**one, "problem": f"{one['problem']}, says {handler.type}"} for one in refusal.problems]
                ) from None
    return json.loads(json.dumps(data, default=to_jsonable_python))


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


def problems_of(error: ValidationError) -> list[dict[str, str]]:
    """Return what does not fit a dataclass, each problem with its field's path."""
    if (count := error.error_count()) > MOST_NAMED:
        return [{"field": "", "problem": f"has {count} problems; /openapi.json says what it takes"}]
    found = error.errors(include_url=False, include_input=False)
    return [{"field": ".".join(map(str, one["loc"])), "problem": _sentence(one)} for one in found]


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
