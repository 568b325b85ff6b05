"""What connects a batch's jobs with the process that was told to run them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from turno.runner.stop_request import StopRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCallbacks:
    """How a job hears of a stop, says that others can see more of it, and what is done around it.

    `started` is called when a transaction is open for jobs, `tidy` after each call of a handler.
    """

    stop: StopRequest = field(default_factory=StopRequest)
    moved: Callable[[], None] = lambda: None
    started: Callable[[], None] = lambda: None
    tidy: Callable[[], None] = lambda: None
