"""An effect outside the database: what its call is told, and what a look-up for it may answer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

LONGEST_KEY = 255
_OUTSIDE_KEYS = UUID("6f1f2f0c-52a1-4c3e-8b0f-6d1f5a3c9e77")


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect; `outside_key` is the same in every attempt, so that the other side can refuse a second use.

    `calls` counts this call and those before it, `since` is when the latest was allowed, `age` the seconds passed
    since then by the database's clock.
    """

    key: str
    outside_key: UUID
    calls: int
    since: datetime
    age: float


@dataclass(frozen=True, slots=True)
class Done:
    """The effect happened; `result` is what the call would have returned, plain JSON."""

    result: Any


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect did not happen, and what was sent can no longer make it happen."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The other side cannot tell; a person must decide. `why` is shown to that person."""

    why: str


Finding = Done | Absent | Unknown


def outside_key(schema: str, key: str) -> UUID:
    """Return the id of an effect outside: derived, so that it is the same even after a restore of the database."""
    return uuid5(_OUTSIDE_KEYS, f"{schema}/{key}")
