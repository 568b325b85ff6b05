"""An effect outside the database: the arguments of its call, and the answers of its look-up."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


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
