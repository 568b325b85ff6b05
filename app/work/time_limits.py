"""How long a child may take: asked to stop when its job's time is over, killed a little later."""

from time import monotonic

from app.jobs.registry import Registry
from app.work import causes
from app.work.child import Child
from app.work.pace import Pace
from app.work.stop import StopRequest


class TimeLimits:
    """Knows each child's deadline, and ends those that have passed it.

    A group has the time of one attempt: all its jobs are of one type, and share a transaction.
    """

    def __init__(self, registry: Registry, pace: Pace) -> None:
        self._registry = registry
        self._pace = pace

    def deadline(self, child: Child) -> float:
        """Return when something is to be done about the child, by the monotonic clock."""
        if not child.claims:
            return child.since + self._pace.idle_child + 1
        deadline = child.since + self._timeout(child)
        return deadline + self._pace.kill_after if child.overdue else deadline

    def enforce(self, child: Child) -> None:
        """Ask a child whose job has taken too long to stop; end it if it was asked already."""
        if not child.claims or monotonic() < self.deadline(child):
            return
        if child.overdue:
            child.kill(causes.time_limit(self._timeout(child)))
        else:
            child.overdue = True
            child.ask_to_stop(StopRequest.TIME_LIMIT)

    def _timeout(self, child: Child) -> float:
        return self._registry.terms(child.claims[0].type).timeout
