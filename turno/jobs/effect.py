"""An effect outside the database: the arguments of its call, and the answers of its look-up."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

LONGEST_KEY = 255
_OUTSIDE_KEYS = UUID("6f1f2f0c-52a1-4c3e-8b0f-6d1f5a3c9e77")


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect; `outside_key` is the same in every attempt, so that the receiver can refuse a second use.

    `calls` counts this and the earlier calls, `since` is the time of the permission for the latest call, `age` the
    seconds since then by the database's clock.
    """

    key: str
    outside_key: UUID
    calls: int
    since: datetime
    age: float


@dataclass(frozen=True, slots=True)
class Done:
    """The effect happened; `result` is the result of its call, plain JSON."""

    result: Any


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect did not happen, and the sent request can no longer cause it."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The receiver does not know; a person must decide. `why` is shown to that person."""

    why: str


Finding = Done | Absent | Unknown


def outside_key(schema: str, key: str) -> UUID:
    """Return the id of an effect outside: derived, so that it is the same even after a restore of the database."""
    return uuid5(_OUTSIDE_KEYS, f"{schema}/{key}")
