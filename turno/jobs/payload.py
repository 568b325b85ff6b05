"""A handler's payload: what its dataclass may bound, and how it is rebuilt from the JSON that was stored."""

import types
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

_FROM_TEXT: dict[type, Any] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    Decimal: Decimal,
    UUID: UUID,
}


@dataclass(frozen=True, slots=True)
class AtMost:
    """In a payload's dataclass, `Annotated[tuple[int, ...], AtMost(10_000)]`: how many items the web accepts there."""

    items: int

    def __get_pydantic_core_schema__(self, annotated: Any, schema_of: Callable[[Any], dict[str, Any]]) -> Any:
        """Bound what pydantic checks and documents; a worker, which only rebuilds, does not load pydantic."""
        return schema_of(annotated) | {"max_length": self.items}


def rebuild(expected: Any, value: Any) -> Any:
    """Return `value` as an instance of the annotation `expected`.

    The web validated the value when the job was accepted; this only restores the types that JSON
    cannot say: dataclasses, tuples, dates, decimals, UUIDs and enums. Raises TypeError or ValueError
    on a value that does not fit, such as one from another version of the payload.
    """
    if is_dataclass(expected):
        hints = _hints(expected if isinstance(expected, type) else type(expected))
        if unknown := set(value) - hints.keys():
            raise TypeError(f"unknown fields: {', '.join(sorted(unknown))}")
        return expected(**{name: rebuild(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        return _rebuild_union(arguments, value)
    if origin is tuple:
        return tuple(rebuild(arguments[0], item) for item in value)
    if origin is list:
        return [rebuild(arguments[0], item) for item in value]
    if origin is dict:
        return {key: rebuild(arguments[1], item) for key, item in value.items()}
    if origin is Literal or not isinstance(expected, type):
        return value
    if issubclass(expected, Enum):
        return expected(value)
    return _FROM_TEXT.get(expected, lambda same: same)(value)


@lru_cache(maxsize=1024)
def _hints(expected: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name; reading annotations is slow, and they do not change."""
    hints = get_type_hints(expected)
    return {field.name: hints[field.name] for field in fields(expected)}


def _rebuild_union(arguments: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None
    others = [argument for argument in arguments if argument is not types.NoneType]
    return rebuild(others[0], value) if len(others) == 1 else value
