"""The parts of a JSON value that do not fit a type, each with its path and a sentence."""

import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from itertools import repeat
from typing import Annotated, Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec

from turno.jobs.json_text import MOST_PROBLEMS

MISSING_FIELD = "is missing"
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a decimal number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a date and time",
    "date": "a date",
    "time": "a time",
    "duration": "a duration",
    "uuid": "a UUID",
    "bytes": "base64 text",
}
_EXAMPLES = {
    "Invalid RFC3339 encoded datetime": "must be a date and time, such as 2030-01-31T09:00:00-03:00",
    "Invalid RFC3339 encoded date": "must be a date, such as 2030-01-31",
    "Invalid RFC3339 encoded time": "must be a time, such as 09:00:00",
    "Invalid ISO8601 duration": "must be a duration, such as PT90S or P3D",
    "Invalid UUID": "must be a UUID",
    "Invalid decimal string": "must be a decimal number, such as 10.50",
    "Invalid base64 encoded string": "must be base64 text",
}


def misfits(annotation: Any, plain: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each value that does not fit the annotation; the decoder itself stops at the first."""
    if annotation is msgspec.Raw:
        return
    try:
        msgspec.convert(plain, annotation, str_keys=True)
    except (msgspec.ValidationError, TypeError) as error:
        below: tuple[str, str] | None = None
        for below in _misfits_below(annotation, plain, f"{path}." if path else ""):
            yield below
        if below is None:
            yield path, sentence(error)


def _misfits_below(annotation: Any, plain: Any, inner: str) -> Iterator[tuple[str, str]]:
    for kind in alternatives(annotation):
        origin, arguments = get_origin(kind) or kind, get_args(kind)
        if isinstance(plain, dict) and is_dataclass(origin):
            hints = get_type_hints(origin, include_extras=True)
            for field in fields(origin):
                if field.name in plain:
                    yield from misfits(hints[field.name], plain[field.name], f"{inner}{field.name}")
                elif field.default is MISSING and field.default_factory is MISSING:
                    yield f"{inner}{field.name}", MISSING_FIELD
        elif isinstance(plain, dict) and len(arguments) == len(("key", "value")):
            for key, item in plain.items():
                yield from misfits(arguments[1], item, f"{inner}{key}")
        elif isinstance(plain, list) and arguments and isinstance(origin, type):
            fixed = issubclass(origin, tuple) and arguments[1:] != (...,)
            for number, (part, item) in enumerate(zip(arguments if fixed else repeat(arguments[0]), plain)):  # noqa: B905
                yield from misfits(part, item, f"{inner}{number}")


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation without Annotated and NewType."""
    while get_origin(annotation) is Annotated or isinstance(annotation, NewType):
        annotation = annotation.__supertype__ if isinstance(annotation, NewType) else annotation.__origin__
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def listed(problems: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return problems as those of InvalidPayload; one about their number if there are too many."""
    named = [{"field": path, "problem": problem} for path, problem in problems]
    if len(named) > MOST_PROBLEMS:
        return [{"field": "", "problem": f"has more than {MOST_PROBLEMS} problems; /openapi.json has its schema"}]
    return named


def sentence(error: Exception) -> str:
    """Return the refusal of the decoder as a sentence after the name of a field."""
    if error.__cause__ is not None:
        return str(error.__cause__)  # of a dataclass's own __post_init__
    message = re.sub(r" - at .*", "", str(error))
    if message.startswith("Expected `str` matching regex"):
        return "has characters, or a form, that are not allowed"
    if message.endswith("with a timezone component"):
        return "must have an offset from UTC, such as 2030-01-31T09:00:00-03:00"
    if message in _EXAMPLES:
        return _EXAMPLES[message]
    if length := re.fullmatch(r"Expected `(array|str|object|bytes)` of length (<=|>=|==)? ?(\d+)", message):
        sign = {"<=": "at most ", ">=": "at least "}.get(length[2], "")
        return f"takes {sign}{length[3]} {'characters' if length[1] == 'str' else 'items'}"
    if bound := re.fullmatch(r"Expected `[a-z]+` (<|<=|>|>=) (\S+)", message):
        return f"must be {bound[1]} {bound[2]}"
    if kinds := re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", message):
        expected = " or ".join(_WORDS.get(kind, kind) for kind in kinds[1].split(" | "))
        return f"must be {expected}, not {_WORDS.get(kinds[2], kinds[2])}"
    return message[:1].lower() + message[1:].replace("`", "")
