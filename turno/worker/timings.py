"""How a supervisor is measured: its times and its number of children."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The supervisor's times, in seconds."""

    heartbeat: float
    dead_after: float
    grace: float
    kill_after: float  # between asking an overdue child to stop and killing it
    idle_child: float = 30.0  # after which a child beyond the fewest is dismissed


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """How many children there are: `fewest` when idle, `most` under load.

    While all of these are at long jobs, up to `reserve` more run those of other tenants.
    """

    fewest: int
    most: int
    reserve: int = 0
