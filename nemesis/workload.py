"""The workload of the clients: types of work with weights and sizes, and the number of open jobs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from nemesis.hearing import Pairs
from nemesis.work import Batch, Flaky, Invoicing, Later, Plain, Serial, Steps, Whole, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from turno.jobs.handler import JobHandler

# Job types that clients submit over HTTP, each with its weight; and acts of an application in the database.
REQUESTED = {
    "invoicing": 4,
    "batch": 4,
    "steps": 2,
    "flaky": 2,
    "later": 2,
    "serial": 2,
    "pairs": 2,
    "parts": 2,
    "plain": 1,
    "long": 1,
}
REPLIES = ("events", "unique", "schedules")
KINDS = (*REQUESTED, *REPLIES)
MOST_OPEN = 40  # jobs; more jobs only make the drain longer


@dataclass(frozen=True, slots=True)
class Workload:
    """The kinds of work that clients submit while fewer than `most_open` jobs are open."""

    kinds: Sequence[str] = KINDS
    most_open: int = MOST_OPEN

    def has(self, kind: str) -> bool:
        """Return whether the workload contains this kind."""
        return kind in self.kinds

    @property
    def requested(self) -> Sequence[str]:
        """Return the job types that clients submit."""
        return [kind for kind in self.kinds if kind in REQUESTED]

    def draw(
        self, chance: Random, new_orders: Callable[[int], list[int]]
    ) -> tuple[type[JobHandler[Any]], dict[str, Any]]:
        """Return a handler and its payload; `new_orders` inserts a number of orders to invoice."""
        (kind,) = chance.choices(self.requested, [REQUESTED[kind] for kind in self.requested])
        match kind:
            case "invoicing":
                orders = new_orders(chance.randint(5, 120))
                return Invoicing, {"order_ids": orders, "point_of_sale": chance.choice((1, 2))}
            case "batch":
                pieces, bad = chance.randint(5, 40), chance.choice((0, 3, 7))
                return Batch, asdict(Work(pieces=pieces, bad=bad, seconds=round(chance.uniform(0, 1.5), 2)))
            case "steps":
                return Steps, asdict(Work(pieces=chance.randint(3, 20), seconds=round(chance.uniform(0, 8), 2)))
            case "flaky":
                return Flaky, asdict(Work(errors=chance.randint(0, 4), bad=int(chance.randrange(5) == 0)))
            case "later":
                return Later, asdict(Work(errors=chance.randint(0, 3)))
            case "serial":
                return Serial, asdict(Work(pieces=chance.choice((1, 2)), seconds=round(chance.uniform(0, 0.5), 2)))
            case "parts":
                wanted = Work(
                    pieces=chance.randint(1, 6), bad=chance.choice((0, 3)), errors=chance.choice((0, 0, 1, 4))
                )
                return Whole, asdict(replace(wanted, seconds=round(chance.uniform(0, 0.6), 2)))
            case "pairs":
                return Pairs, asdict(Work(seconds=round(chance.uniform(0, 0.8), 2)))
            case "plain":
                return Plain, asdict(Work(seconds=chance.choice((0.0, 0.1))))
            case _:
                return Plain, asdict(Work(seconds=chance.choice((6.0, 12.0))))
