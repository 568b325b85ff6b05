"""The schedule of faults: a pure function of the seed, so that a run can be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# Each kind with its weight: faults with a fast recovery are more frequent.
WEIGHTS = {
    "kill child": 6,
    "kill worker": 4,
    "kill both": 2,
    "terminate child": 2,
    "terminate worker": 3,
    "freeze child": 2,
    "freeze worker": 3,
    "end session": 4,
    "restart database": 2,
    "kill database": 1,
    "stop cron": 1,
    "blackhole": 2,
    "kill web": 2,
    "terminate web": 1,
    "change backend": 3,
    "lock tenant": 2,
    "old schema": 2,
    "pause tenant": 1,
    "second maintenance": 2,
    "lose commit reply": 4,
    "fill notifications": 1,
    "kill broker": 1,
    "close connections": 1,
    "memory alarm": 1,
    "purge queues": 1,
}
BROKER = ("kill broker", "close connections", "memory alarm", "purge queues")
NETWORK = ("blackhole",)
LINK = ("lose commit reply",)
DATABASE = ("lock tenant", "old schema", "pause tenant", "fill notifications")
PAUSES = (0.4, 3.0)  # seconds between two faults
HOLDS = {
    "freeze child": (0.5, 6.0),
    "freeze worker": (30.0, 45.0),  # at most: until another worker has begun its job
    "stop cron": (2.0, 8.0),
    "blackhole": (1.0, 8.0),
    "lock tenant": (0.5, 6.0),
    "old schema": (1.0, 8.0),
    "pause tenant": (1.0, 8.0),
    "second maintenance": (2.0, 8.0),
    "fill notifications": (1.0, 6.0),
    "kill broker": (0.5, 6.0),
    "memory alarm": (2.0, 8.0),
}


class Fault(NamedTuple):
    """A fault `kind` at `at` seconds, for `hold` seconds; `whom` is the fraction that selects the victim."""

    at: float
    kind: str
    fraction: float
    hold: float

    def __str__(self) -> str:
        return f"{self.at:7.1f} s  {self.kind:<18} victim {self.fraction:.2f}" + (
            f"  for {self.hold:.1f} s" if self.hold else ""
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """The faults of a run, in order of time."""

    seed: int
    seconds: float
    faults: tuple[Fault, ...]

    @classmethod
    def of(cls, seed: int, seconds: float, kinds: Iterable[str] = WEIGHTS) -> Schedule:
        """Draw the faults of a seed, without faults in the first second and the last two."""
        chance = Random(seed)  # noqa: S311 - reproducible, not secret
        chosen = [kind for kind in WEIGHTS if kind in set(kinds)]
        weights = [WEIGHTS[kind] for kind in chosen]
        faults, at = [], 1.0
        while (at := at + chance.uniform(*PAUSES)) < seconds - 2:
            (kind,) = chance.choices(chosen, weights)
            hold = chance.uniform(*HOLDS[kind]) if kind in HOLDS else 0.0
            faults.append(Fault(round(at, 1), kind, chance.randrange(100) / 100, round(hold, 1)))
        return cls(seed, seconds, tuple(faults))
