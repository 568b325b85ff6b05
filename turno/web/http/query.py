"""Read query strings by the same declarations that document them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from werkzeug.datastructures import MultiDict

from turno.web.http.problems import FieldProblem, invalid

LONGEST_TEXT = 255
LARGEST_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One query parameter: `read` turns its text into a value or raises ValueError with what was expected."""

    name: str
    about: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]
    default: Any = None
    repeatable: bool = False


def read_query(
    given: MultiDict[str, str], known: Sequence[Parameter], *, others_ignored: bool = False
) -> dict[str, Any]:
    """Return each known parameter's value or default; raises Problem 400 listing all that is wrong.

    A parameter that is not known is wrong, unless others are ignored: what brings people to a page adds its own.
    """
    by_name = {parameter.name: parameter for parameter in known}
    others = [] if others_ignored else [name for name in given if name not in by_name]
    problems = [FieldProblem(name[:LONGEST_TEXT], "is not a parameter of this address") for name in others]
    values: dict[str, Any] = {}
    for name, parameter in by_name.items():
        texts = given.getlist(name)
        try:
            values[name] = _value(parameter, texts)
        except ValueError as problem:
            problems.append(FieldProblem(name, str(problem)))
    if problems:
        raise invalid(problems)
    return values


def _value(parameter: Parameter, texts: list[str]) -> Any:
    if not texts:
        return parameter.default
    if parameter.repeatable:
        return [parameter.read(text) for text in texts]
    if len(texts) > 1:
        raise ValueError("may be given once")
    return parameter.read(texts[0])


def words(*allowed: str) -> Callable[[str], str]:
    """Return a reader of one of a few words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return read


def text(given: str) -> str:
    """Read text that may be compared with what is stored."""
    if not given or len(given) > LONGEST_TEXT or "\0" in given:
        raise ValueError(f"must be 1 to {LONGEST_TEXT} characters")
    return given


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of a whole number within limits."""

    def read(given: str) -> int:
        if not (given.isascii() and given.isdecimal() and len(given) <= len(str(high)) and low <= int(given) <= high):
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(given)

    return read


def _flag(given: str) -> bool:
    return words("true", "false")(given) == "true"


def _job_cursor(given: str) -> UUID:
    try:
        return UUID(given)
    except ValueError:
        raise ValueError("must be a next_cursor of this list") from None


def flag(name: str, about: str) -> Parameter:
    """Return a parameter that is true or false, and false by default."""
    return Parameter(name=name, about=about, schema={"type": "boolean", "default": False}, read=_flag, default=False)


LIMIT = Parameter(
    name="limit",
    about="How many entries a page has.",
    schema={"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": 50},
    read=whole(1, LARGEST_PAGE),
    default=50,
)
CURSOR = Parameter(
    name="cursor",
    about="The `next_cursor` of the page before.",
    schema={"type": "string", "format": "uuid"},
    read=_job_cursor,
)
