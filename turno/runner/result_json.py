"""Results of handlers and answers of their outside calls, as JSON text that PostgreSQL stores."""

from dataclasses import is_dataclass
from json import dumps
from typing import Any

from turno.errors import InvalidResult
from turno.jobs.json_text import NotJson, json_text

LARGEST_RESULT = 256 * 1024
LARGEST_ANSWER = 64 * 1024


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
        dumps(answer, allow_nan=False)
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
