"""The backends with residents: a notification wakes workers, or the relay, coalesced and outside any transaction."""

import logging
from collections.abc import Callable
from threading import Event, Thread

from app.jobs.job import JobRef

log = logging.getLogger(__name__)

BREATH = 0.005  # seconds between two notifications of one process: a commit with a notification takes a global lock


class PoolQueue:
    """Notifies after the commit, from a thread of its own; implements QueueInterface."""

    def __init__(self, *, notify: Callable[[], None], hang_up: Callable[[], None], name: str = "pool") -> None:
        """`notify` wakes the workers; whatever it raises is logged, because polling finds the job anyway.

        Of the backend rabbitmq it is the relay that wakes: the web never speaks to the broker. `hang_up` is called
        once, at the end, from the thread that notified.
        """
        self.name = name
        self._notify = notify
        self._hang_up = hang_up
        self._offered = Event()
        self._closed = Event()
        self._thread = Thread(target=self._send, name="hints", daemon=True)
        self._thread.start()

    def offer(self, ref: JobRef) -> bool:
        """Have the workers woken; which job it is, they find by claiming."""
        del ref
        self._offered.set()
        return not self._closed.is_set()

    def close(self) -> None:
        """Send what is left and end the thread."""
        self._closed.set()
        self._offered.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._closed.is_set():
            self._offered.wait()
            self._offered.clear()
            try:
                self._notify()
            except Exception as error:  # noqa: BLE001 - a lost hint is no error
                log.warning("workers not woken: %s", error)
            self._closed.wait(BREATH)
        self._hang_up()
