"""The functions of the child process that the executor calls."""

from collections.abc import Callable
from dataclasses import dataclass, field

from turno.runner.shared_state import SharedState


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCallbacks:
    """The state shared with the parent, and the functions that the executor calls.

    `progressed` is called when people can see a change of the job, `started` when a transaction is open for jobs,
    `tidy` after each call of a handler.
    """

    shared: SharedState = field(default_factory=SharedState)
    progressed: Callable[[], None] = lambda: None
    started: Callable[[], None] = lambda: None
    tidy: Callable[[], None] = lambda: None
