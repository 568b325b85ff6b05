"""A short-lived process of a resident worker that runs the maintenance tasks, apart from the jobs."""

import logging
import os
import signal
from collections.abc import Callable
from time import monotonic
from typing import NoReturn

from turno.runner import exit_codes, processes

log = logging.getLogger(__name__)


class MaintenanceProcess:
    """Forks a process for `work` every `every` seconds unless it still runs; the work cannot delay a job."""

    def __init__(self, work: Callable[[], None], *, every: float, first: float = 0.0) -> None:
        """Begin the first round after `first` seconds; infinity: never."""
        self._work = work
        self._every = every
        self.pid: int | None = None
        self.due = monotonic() + first

    def fork_if_due(self, *, in_child: Callable[[], None]) -> None:
        """Start the next round if it is due; the child first calls `in_child` to close its parent's files."""
        if monotonic() < self.due:
            return
        self.due = monotonic() + self._every
        if self.busy:
            log.warning("maintenance takes longer than its period of %g s", self._every)
            return
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError as error:
            log.warning("no process could be had for maintenance, the next round tries again: %s", error)
            return
        if self.pid == 0:
            self._run_round(parent, in_child)

    def end(self) -> None:
        """End a running round: the next process with the lease continues."""
        if self.pid is not None and self.busy:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None

    @property
    def busy(self) -> bool:
        """Return whether a round is running; reaps a process that has ended."""
        if self.pid is not None and os.waitpid(self.pid, os.WNOHANG) != (0, 0):
            self.pid = None
        return self.pid is not None

    @property
    def processes(self) -> set[int]:
        """Return the process of a running round."""
        return set() if self.pid is None else {self.pid}

    def _run_round(self, parent: int, in_child: Callable[[], None]) -> NoReturn:
        code = exit_codes.BROKEN
        try:
            processes.die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            in_child()
            self._work()
            code = exit_codes.FINISHED
        except Exception:
            log.exception("maintenance failed; the next round tries again")
        finally:
            logging.shutdown()
            os._exit(code)
