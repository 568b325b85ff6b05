"""When the passes run: every few seconds in one process of the installation, and all of them when cron asks."""

import logging
from collections.abc import Collection
from datetime import timedelta
from time import sleep

import psycopg

from turno.maintenance.passes import Passes, PassesFailed
from turno.process_name import process_name
from turno.store.engine import leases, tickets
from turno.store.outage import apart

log = logging.getLogger(__name__)

SWEEP, UPKEEP = timedelta(seconds=10), timedelta(minutes=5)
# Shorter than the period: otherwise a lone process would find its own lease not yet over every second time.
SWEEP_LEASE = 0.9 * SWEEP
# Kept, under one name, by every process that sweeps regularly: cron, and residents.
STEADY = ("steady sweeps", "anybody", timedelta(minutes=15))
OFTEN = ("rescued", "counted", "delivered", "scheduled", "promoted", "moved", "offered")
RARELY = ("repaired", "expired", "purged", "unserved")  # these ask every tenant, and seldom find anything


class Maintenance(Passes):
    """Runs the passes one after another, also after one that failed, and counts what each did."""

    def run_leased(self, *, steady: bool = True) -> None:
        """Run the passes that are due and that no other process of the installation runs.

        `steady` says that this process sweeps regularly, whether there is work or not. A failure is logged, because
        the next round tries again.
        """
        try:
            if steady:
                self._engine.run(leases.keep, *STEADY)
            if self._engine.run(leases.take, "sweep", process_name(), SWEEP_LEASE):
                self.announce()
                self._run(OFTEN)
            if self._engine.run(leases.take, "upkeep", process_name(), UPKEEP):
                self._run(RARELY)
        except (psycopg.Error, PassesFailed) as error:
            log.warning("maintenance failed, the next round tries again: %s", error)

    def run_once(self) -> dict[str, int]:
        """Run all passes in their order; returns each one's count.

        Where nobody has swept for a while and workers are silent, it first gives them time for a heartbeat.
        """
        if not self._dry_run:
            self._engine.run(leases.keep, *STEADY)
            self.announce()
            self._wait_for_heartbeats()
        return self._run((*OFTEN, *RARELY))

    def close(self) -> None:
        """Send the last hints and end the engine's session."""
        self._queue.close()
        self._engine.close()

    def _run(self, names: Collection[str]) -> dict[str, int]:
        """Run these passes; raises PassesFailed at the end if one could not be done."""
        passes = {
            "rescued": self.rescue,
            "counted": self.count,
            "delivered": self.deliver,
            "scheduled": self.schedule,
            "promoted": self.promote,
            "repaired": self.repair,
            "expired": self.expire,
            "purged": self.purge,
            "moved": self.move_unserved,
            "offered": self.offer,
            "unserved": self.unserved,
        }
        counts, troubles = dict[str, int](), dict[str, str]()
        for name, run in passes.items():
            if name not in names:
                continue
            self._at_each_step()
            try:
                with apart(troubles, name):
                    counts[name] = run()
            except PassesFailed as error:
                troubles[name] = str(error)
        if any(counts.values()):
            log.info("maintenance", extra={"dry_run": self._dry_run, **counts})
        if troubles:
            raise PassesFailed.of(troubles)
        return counts

    def _wait_for_heartbeats(self) -> None:
        """Wait while there are silent workers whose silence does not count yet: nobody has swept for that long."""
        silence = self._terms.dead_after
        self._engine.run(leases.take, "sweep", process_name(), SWEEP_LEASE)
        while self._engine.run(tickets.silent_workers, silence):
            rest = silence - self._engine.run(leases.age, "sweep")
            if rest <= timedelta(0):
                return
            self._at_each_step()
            sleep(min(rest, SWEEP_LEASE / 2).total_seconds())
            self._engine.run(leases.take, "sweep", process_name(), SWEEP_LEASE)
