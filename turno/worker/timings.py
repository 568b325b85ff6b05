"""A supervisor's times and its number of children."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The supervisor's times, in seconds."""

    heartbeat: float
    dead_after: float
    grace: float
    kill_after: float  # between asking an overdue child to stop and killing it


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSize:
    """How many children there are: `minimum` when idle, `maximum` under load.

    While all children run long jobs, up to `reserve` more children run jobs of other tenants.
    """

    minimum: int
    maximum: int
    reserve: int = 0
