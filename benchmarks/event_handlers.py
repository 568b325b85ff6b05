"""Subscribers that do nothing: of one event one, of another three, and one that has a third event in order."""

from __future__ import annotations

from benchmarks.noop_handlers import Tally


class Single(Tally):
    """The only one."""

    type = "one"
    subscribes = ("said.to_one",)


class First(Tally):
    """One of three."""

    type = "first"
    subscribes = ("said.to_three",)


class Second(First):
    """Another."""

    type = "second"


class Third(First):
    """The last."""

    type = "third"


class InOrder(Tally):
    """One after another of each key."""

    type = "in_order"
    subscribes = ("said.in_order",)
    ordered = True


HANDLERS = (Single, First, Second, Third, InOrder)
REFERENCE = "benchmarks.event_handlers:HANDLERS"
