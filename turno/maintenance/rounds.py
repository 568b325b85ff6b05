"""When the tasks run: every few seconds in one process of the installation, and all tasks in a run of cron."""

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from time import monotonic, sleep

import psycopg

from turno.maintenance.tasks import MaintenanceFailed, Tasks
from turno.process_name import process_name
from turno.store.outage import apart

log = logging.getLogger(__name__)

PERIOD, RARE_PERIOD = timedelta(seconds=10), timedelta(minutes=5)
# Shorter than the period: otherwise a lone process would find its own lease not yet over every second time.
LEASE = 0.9 * PERIOD
# Without a lease for this long: no process maintains. Below LEASE, which bridges gaps.
UNATTENDED = timedelta(seconds=4)
PROLONG = LEASE.total_seconds() / 3
# Kept, under one name, by every process that runs maintenance regularly: cron, and residents.
STEADY = ("steady sweeps", "anybody", timedelta(minutes=15))
URGENT = ("rescued", "promoted", "moved", "offered")
OFTEN = ("counted", "repaired", "expired", "purged")
RARELY = ("pruned", "unserved")


class Maintenance(Tasks):
    """Runs the tasks one after another, also after a failed task, and counts the changes of each."""

    _prolong_at = math.inf

    def run_leased(self, *, steady: bool = True) -> None:
        """Run the tasks that are due and that no other process of the installation runs, but for the urgent ones.

        `steady` is true in a process that runs maintenance regularly, whether there is work or not. A failure is
        logged, because the next round tries again.
        """
        with _logged():
            if steady:
                self._engine.take_lease(*STEADY, renew=True)
            # Each process, not only the holder of the lease: it may run a release with other handlers.
            self.announce()
            if self._engine.take_lease("maintenance", process_name(), LEASE):
                self._run_due()

    def run_unattended(self) -> None:
        """Run the due tasks, but for the urgent ones, if no other process maintains the installation."""
        with _logged():
            if self._engine.take_lease("maintenance", process_name(), LEASE, UNATTENDED):
                self._engine.take_lease(*STEADY, renew=True)
                self.announce()
                self._run_due()

    def rescue_leased(self, after: timedelta = timedelta(0)) -> None:
        """Run the urgent tasks unless another process does, or did until less than `after` ago.

        They rescue lost jobs and hint at waiting jobs.
        """
        with _logged():
            if self._engine.take_lease("sweep", process_name(), LEASE, after):
                self._run(URGENT)

    def run_once(self) -> dict[str, int]:
        """Run all tasks in their order; returns the count of each.

        After a time without maintenance it first gives silent workers time for a heartbeat.
        """
        self._each_tenant.complete = True
        if not self._dry_run:
            self._engine.take_lease(*STEADY, renew=True)
            self.announce()
            self._wait_for_heartbeats()
        return self._run((*URGENT, *OFTEN, *RARELY), self.of_capabilities())

    def close(self) -> None:
        """Send the last hints and end the engine's session."""
        self._queue.close()
        self._engine.close()

    def _run_due(self) -> None:
        self._prolong_at = monotonic() + PROLONG
        self._run(OFTEN, self.of_capabilities())
        if self._engine.take_lease("upkeep", process_name(), RARE_PERIOD):
            self._run(RARELY)

    def _step(self) -> None:
        """Between two transactions: prove that this process lives, and keep the lease of a round that takes long."""
        super()._step()
        if monotonic() > self._prolong_at:
            self._prolong_at = monotonic() + PROLONG
            self._engine.take_lease("maintenance", process_name(), LEASE, renew=True)

    def _run(self, names: Collection[str], more: Mapping[str, Callable[[], int]] | None = None) -> dict[str, int]:
        """Run the tasks of these names, and more tasks; raises MaintenanceFailed at the end if a task failed."""
        tasks = {
            "rescued": self.rescue,
            "promoted": self.promote,
            "moved": self.move_unserved,
            "offered": self.offer,
            "counted": self.count,
            "repaired": self.repair,
            "expired": self.expire,
            "purged": self.purge,
            "pruned": self.prune,
            "unserved": self.unserved,
        }
        counts, troubles = dict[str, int](), dict[str, str]()
        for name, run in ({name: tasks[name] for name in names} | dict(more or {})).items():
            self._step()
            try:
                with apart(troubles, name):
                    counts[name] = run()
            except MaintenanceFailed as error:
                troubles[name] = str(error)
        if any(counts.values()):
            log.info("maintenance", extra={"dry_run": self._dry_run, **counts})
        if troubles:
            raise MaintenanceFailed.of(troubles)
        return counts

    def _wait_for_heartbeats(self) -> None:
        """Wait while the silence of workers does not count yet, because no process ran maintenance."""
        silence = self._terms.dead_after
        self._engine.take_lease("sweep", process_name(), LEASE)
        while (rest := self._engine.silence_left(silence)) is not None and rest > timedelta(0):
            self._step()
            sleep(min(rest, LEASE / 2).total_seconds())
            self._engine.take_lease("sweep", process_name(), LEASE)


@contextmanager
def beside(work: Callable[[], None], every: timedelta) -> Iterator[None]:
    """Call `work` in a thread, at once and again after each `every`, until the block ends."""
    over = Event()

    def repeat() -> None:
        while True:
            try:
                work()
            except Exception:
                log.exception("maintenance failed, the next round tries again")
            if over.wait(every.total_seconds()):
                return

    thread = Thread(target=repeat, name="rescue", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, MaintenanceFailed) as error:
        log.warning("maintenance failed, the next round tries again: %s", error)
