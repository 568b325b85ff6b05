"""Maintenance in a web process while no worker, `turno maintain` or cron runs it, as with the backend exec alone."""

import atexit
import logging
from datetime import timedelta
from threading import Event, Lock, Thread

from turno.jobs.registry import Registry
from turno.maintenance.rounds import UNATTENDED
from turno.settings import Settings
from turno.wiring.shared import regular_maintenance

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=3)  # one query of a lease
STOPS_WITHIN = 2.0  # seconds that the end of the process waits for a round


class WebMaintenance:
    """A thread that runs the due tasks whenever the lease of maintenance was not taken in time by another process."""

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._settings = settings
        self._registry = registry
        self._starting = Lock()
        self._thread: Thread | None = None
        self._stopped = Event()

    def start(self) -> None:
        """Start the thread, once in a process."""
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="maintenance", daemon=True)
                self._thread.start()
                atexit.register(self.stop)

    def stop(self) -> None:
        """Begin no further round."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(STOPS_WITHIN)

    def _run(self) -> None:
        with regular_maintenance(self._settings, self._registry, every=EVERY, after=UNATTENDED) as tasks:
            while True:
                try:
                    tasks.run_unattended()
                except Exception:
                    log.exception("maintenance failed, the next round tries again")
                if self._stopped.wait(EVERY.total_seconds()):
                    return
