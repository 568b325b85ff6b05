"""JSON text that PostgreSQL stores and returns unchanged: from Python values, and from the text of a caller."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Any, NoReturn

import msgspec

from turno.errors import InvalidResult

MAX_DEPTH = 64
LARGEST_WHOLE_NUMBER = 2**63 - 1
LONGEST_NUMBER = 400  # characters
LARGEST_EXPONENT = 308
MOST_PROBLEMS = 1000
LARGEST_RESULT = 256 * 1024
LARGEST_ANSWER = 64 * 1024

# One escaped surrogate of a valid pair matches, too: the slow search decides.
_SUSPICIOUS = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_LONG_INTEGER = re.compile("[0-9]{309}")
_LARGEST_STORED = 10**LARGEST_EXPONENT
_MINUTE = timedelta(minutes=1)

NUL = "contains the character U+0000, which cannot be stored"
SURROGATE = "contains half of a surrogate pair, which is no character"
TOO_LARGE = f"is beyond 1e{LARGEST_EXPONENT}"
TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"
NOT_FINITE = "is no finite number"


class NotJson(ValueError):
    """A value or a text that jsonb cannot represent; `problems` are pairs of a path and a problem."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {problem}".removeprefix(": ") for path, problem in problems[:10]))
        self.problems = problems


def json_text(value: Any) -> str:
    """Return a Python value as JSON text: dataclasses, decimals, dates, UUIDs, enums, bytes and sets included.

    Raises NotJson with the path of each value that JSON cannot represent.
    """
    try:
        plain = msgspec.to_builtins(value, str_keys=True, builtin_types=_CHECKED, enc_hook=_base)
        text = json.dumps(plain, default=_checked, allow_nan=False)
        nested = text.count("[") + text.count("{") > MAX_DEPTH and _depth(plain) > MAX_DEPTH
        doubtful = nested or _SUSPICIOUS.search(text) or _LONG_INTEGER.search(text)
    except (TypeError, ValueError, OverflowError, RecursionError):
        text, doubtful = "", True
    if doubtful and (problems := list(islice(problems_in(value), MOST_PROBLEMS))):
        raise NotJson(problems)
    # Dictionaries with decimals or times as keys, after the search above.
    return text or json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=_base), allow_nan=False)


def serialise(result: Any) -> str:
    """Return a handler's result as JSON text; its values have the types of a payload. Raises InvalidResult."""
    if not (result is None or isinstance(result, dict) or (is_dataclass(result) and not isinstance(result, type))):
        named = type(result).__name__
        raise InvalidResult(f"a handler returns a dict, a dataclass, None, Reschedule or Cancel, not {named}")
    return _storable(result, "the result", LARGEST_RESULT)


def serialise_answer(answer: Any) -> str:
    """Return the answer of an outside call as JSON text; raises InvalidResult.

    Only plain JSON: a later attempt gets the stored answer, which has to equal this attempt's.
    """
    try:
        json.dumps(answer, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResult(f"the return value of the call of job.once is not plain JSON: {error}") from error
    return _storable(answer, "the return value of the call of job.once", LARGEST_ANSWER)


def _storable(value: Any, name: str, largest: int) -> str:
    try:
        text = json_text(value)
    except NotJson as error:
        raise InvalidResult(f"{name} cannot be stored as JSON: {error}") from error
    if len(text) > largest:
        raise InvalidResult(f"{name} has {len(text)} bytes as JSON; at most {largest} are kept")
    return text


def parse_json(text: str) -> Any:
    """Return the value of a JSON text (RFC 8259); raises NotJson if jsonb would refuse or change it."""
    try:
        value = _decoder().decode(text)
    except json.JSONDecodeError as error:
        _refuse(f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except RecursionError:
        _refuse(TOO_DEEP)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        _refuse(TOO_DEEP)
    if _SUSPICIOUS.search(text) and (problems := list(islice(problems_in(value), MOST_PROBLEMS))):
        raise NotJson(problems)
    return value


def problems_in(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the path of each value that cannot be stored as JSON, and the reason."""
    inner = f"{path}." if path else ""
    if depth > MAX_DEPTH:
        yield path[:200], TOO_DEEP
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from ((f"{inner}{key!a}"[:200], problem) for _, problem in problems_in(key))
            yield from problems_in(item, f"{inner}{key}", depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from problems_in(getattr(value, field.name), f"{inner}{field.name}", depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, item in enumerate(value):
            yield from problems_in(item, f"{inner}{number}", depth + 1)
    elif problem := _problem_of(value):
        yield path, problem


def _problem_of(value: Any) -> str | None:
    match value:
        case str() if "\0" in value:
            return NUL
        case str() if not value.isascii() and value.encode("utf-8", "ignore").decode() != value:
            return SURROGATE
        case bool():
            return None
        case int() if abs(value) > _LARGEST_STORED:
            return TOO_LARGE
        case float() if not math.isfinite(value):
            return NOT_FINITE
        case Decimal() if not is_finite(value):
            return NOT_FINITE
        case datetime() | time() if (value.tzinfo is not None) and not _whole_minutes(value):
            return "has a time zone that JSON cannot represent; convert it to UTC"
    try:
        msgspec.to_builtins(value, enc_hook=_base)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return f"is a {type(value).__name__}, which JSON cannot represent"
    return None


def is_finite(number: Decimal) -> bool:
    """Return whether a decimal is a number that PostgreSQL and binary floating point can hold, too."""
    return number.is_finite() and -LONGEST_NUMBER <= number.adjusted() <= LARGEST_EXPONENT


def _whole_minutes(value: datetime | time) -> bool:
    offset = value.utcoffset()
    return offset is not None and not offset % _MINUTE


_CHECKED = (datetime, time, Decimal)


def _checked(value: Any) -> Any:
    if _problem_of(value):
        raise ValueError
    return msgspec.to_builtins(value)


def _base(value: Any) -> Any:
    """Return the plain value of an instance of a subclass, such as an escaped text or a read-only mapping."""
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _depth(value: Any) -> int:
    """Return the nesting of a JSON value, at most one more than MAX_DEPTH; without recursion, as callers choose it."""
    depth, level = 0, [value]
    while depth <= MAX_DEPTH and (level := [item for item in level if isinstance(item, dict | list | tuple)]):
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


@cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_int=_whole_number, parse_float=_number, parse_constant=_constant
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name in times if times[name] > 1)
        _refuse(f"has an object with the name {twice[:60]!a} twice")
    return value


def _whole_number(text: str) -> int:
    # The length first: turning a long text into a number takes quadratic time.
    if len(text) > LONGEST_NUMBER or abs(number := int(text)) > LARGEST_WHOLE_NUMBER:
        _refuse(f"has the whole number {text[:30]}, which does not fit in 64 bits; send it as a string")
    return number


def _number(text: str) -> float:
    if len(text) > LONGEST_NUMBER or math.isinf(number := float(text)):
        _refuse(f"has the number {text[:30]}, which is too large or too long; send it as a string")
    return number


def _constant(text: str) -> NoReturn:
    _refuse(f"has {text}, which is not a JSON number")


def _refuse(problem: str, path: str = "") -> NoReturn:
    raise NotJson([(path, problem)])
