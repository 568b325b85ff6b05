"""What connects a job's attempt with the process that was told to run it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from turno.jobs.claim import Batch
from turno.runner.stop_request import StopRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCallbacks:
    """How an attempt hears of a stop, says that others can see more of its job, and asks what comes after it.

    `following` takes the next claims, which have to be run next; it returns none if there are none.
    """

    stop: StopRequest = field(default_factory=StopRequest)
    moved: Callable[[], None] = lambda: None
    following: Callable[[], Batch] = lambda: ()
