"""The interface of every backend, the hint that a committed job waits; and the backends with resident workers."""

import logging
from collections.abc import Callable
from threading import Condition, Thread
from typing import Protocol

from turno.jobs.job import JobRef

log = logging.getLogger(__name__)

# The variable with a launched worker's slot on the host; no other process has it.
SLOT_VARIABLE = "TURNO_SLOT"
# Arguments that mark a launched worker: every process may read a command line, also of a process closed to tracing.
LAUNCHED = ("-X", "turno-launched")
# Between two notifications of one process: all commits with a notification take one lock of the server's.
PAUSE_SECONDS = 0.005


class QueueInterface(Protocol):
    """Sends a worker the hint that a committed job may run.

    A hint: `offer` may be lost, repeated or late, and nothing breaks, because the ticket is the truth and the sweep
    repeats the offers of unclaimed tickets. It returns at once and never raises for a missing worker.
    """

    name: str

    @property
    def useful(self) -> int:
        """Return the number of offers that are of use now, however many jobs wait."""

    def offer(self, ref: JobRef) -> bool:
        """Hint that this job is ready; return whether a worker was notified (False: it waits for a free worker)."""

    def close(self) -> None:
        """Close the backend's resources in this process; running workers continue."""


class PoolQueue:
    """Notifies resident workers after the commit, from a separate thread; one notification wakes them for many jobs."""

    useful = 1  # one notification wakes all listening workers

    def __init__(self, *, notify: Callable[[], None], hang_up: Callable[[], None], name: str = "pool") -> None:
        """`notify` wakes the workers; its errors are logged, because polling finds the job anyway.

        `hang_up` is called once, at the end, from the thread that notified. `name` is the backend's.
        """
        self.name = name
        self._notify = notify
        self._hang_up = hang_up
        self._changed = Condition()
        self._offered = self._closed = False
        self._thread = Thread(target=self._send, name="hints", daemon=True)
        self._thread.start()

    def offer(self, ref: JobRef) -> bool:
        """Wake the workers; they find the job by claiming."""
        del ref
        with self._changed:
            self._offered = True
            self._changed.notify()
            return not self._closed

    def close(self) -> None:
        """Send the waiting hints and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _send(self) -> None:
        while self._next():
            try:
                self._notify()
            except Exception as error:  # noqa: BLE001 - a lost hint is no error
                log.warning("workers not woken: %s", error)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, PAUSE_SECONDS)
        self._hang_up()

    def _next(self) -> bool:
        """Wait until a hint is to be sent; False when the queue is closed and has no offers left."""
        with self._changed:
            self._changed.wait_for(lambda: self._offered or self._closed)
            offered, self._offered = self._offered, False
            return offered
