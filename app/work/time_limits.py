"""How long a child may take: asked to stop when its job's time is over, killed a little later."""

from time import monotonic

from app.jobs.registry import Registry
from app.work import causes
from app.work.child import Child
from app.work.pace import Pace
from app.work.stop import StopRequest


class TimeLimits:
    """Knows each child's deadline, and ends those that have passed it."""

    def __init__(self, registry: Registry, pace: Pace) -> None:
        self._registry = registry
        self._pace = pace

    def deadline(self, child: Child) -> float:
        """Return when something is to be done about the child, by the monotonic clock."""
        if child.claim is None:
            return child.since + self._pace.idle_child + 1
        deadline = child.since + self._registry.terms(child.claim.type).timeout
        return deadline + self._pace.kill_after if child.overdue else deadline

    def enforce(self, child: Child) -> None:
        """Ask a child whose job has taken too long to stop; end it if it was asked already."""
        if child.claim is None or monotonic() < self.deadline(child):
            return
        if child.overdue:
            child.kill(causes.time_limit(self._registry.terms(child.claim.type).timeout))
        else:
            child.overdue = True
            child.ask_to_stop(StopRequest.TIME_LIMIT)
