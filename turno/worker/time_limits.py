"""The time limits of jobs: a child receives a request to stop at the limit of its job, and is killed after a grace."""

from dataclasses import dataclass
from time import monotonic

from turno.jobs.handler import Registry
from turno.worker import crash_reasons
from turno.worker.child import Child


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The supervisor's times, in seconds."""

    heartbeat: float
    dead_after: float
    grace: float
    kill_after: float  # between asking an overdue child to stop and killing it


class TimeLimits:
    """Knows the deadline of each child's present job, and ends the children that have passed it."""

    def __init__(self, registry: Registry, timings: Timings) -> None:
        self._registry = registry
        self._timings = timings
        self.set_by_operators: dict[str, float] = {}  # seconds by job type, in place of the handler's limit

    def deadline(self, child: Child) -> float:
        """Return when something is to be done about a child that runs something, by the monotonic clock."""
        if child.overdue:
            return child.overdue_since + self._timings.kill_after
        deadline, _ = self._limit(child)
        return deadline

    def enforce(self, child: Child) -> None:
        """Send a child with an overdue job a request to stop; kill a child that has received it before."""
        # Read before the clock: a job that begins in between has not passed its limit.
        claim = child.current
        if not child.claims or monotonic() < self.deadline(child):
            return
        if child.overdue:
            child.kill(child.overdue)
        else:
            _, limit = self._limit(child)
            child.pass_limit(limit, claim)

    def _limit(self, child: Child) -> tuple[float, str]:
        """Return when the present job will have passed a limit, as far as can be seen now, and which."""
        handler = self._registry.handler(child.claims[0].type)
        timeout = self.set_by_operators.get(handler.type, handler.timeout)
        whole = child.since + timeout, crash_reasons.time_limit(timeout)
        if handler.longest_transaction is None:
            return whole
        # One that begins later is checked again before it can be too old.
        open_since = max(child.in_transaction_since or monotonic(), child.since)
        longest = handler.longest_transaction
        return min(whole, (open_since + longest, crash_reasons.transaction_limit(longest)))
