"""What handlers and their calls return, as JSON text that PostgreSQL will store."""

from json import dumps
from typing import Any

from turno.errors import InvalidResult

LARGEST_RESULT = 256 * 1024
LARGEST_ANSWER = 64 * 1024


def serialise(result: Any) -> str:
    """Return a handler's result as JSON text; raises InvalidResult."""
    if not isinstance(result, dict):
        raise InvalidResult(f"a handler returns a dict, Reschedule or Cancel, not {type(result).__name__}")
    return _storable(result, "the result", LARGEST_RESULT)


def serialise_answer(answer: Any) -> str:
    """Return what an outside call answered as JSON text; raises InvalidResult."""
    return _storable(answer, "what the call of job.once returned", LARGEST_ANSWER)


def _storable(value: Any, what: str, largest: int) -> str:
    try:
        text = dumps(value, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResult(f"{what} is not plain JSON: {error}") from error
    if "\\u0000" in text or ("\\ud" in text.lower() and _lone_surrogate(value)):
        raise InvalidResult(f"{what} holds a NUL character or half a surrogate pair, which PostgreSQL cannot store")
    if len(text) > largest:
        raise InvalidResult(f"{what} has {len(text)} bytes as JSON; at most {largest} are kept")
    return text


def _lone_surrogate(value: Any) -> bool:
    try:
        dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
