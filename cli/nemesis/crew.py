"""Who does the work: pools that are started again when they end, workers for single jobs, and cron."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

from app.queues.exec import ExecQueue
from app.queues.slots import SlotFolder
from app.work.maintenance import Maintenance, PassesFailed, Terms
from cli.deadline import becomes_true
from cli.nemesis.stage import MARK
from cli.nemesis.work import PLACE
from cli.testing import processes
from cli.wiring import ROOT, engine_link, pool_queue

if TYPE_CHECKING:
    from random import Random

    from app.jobs.job import JobRef
    from app.queues.interface import QueueInterface
    from cli.nemesis.network import Network
    from cli.nemesis.stage import Stage

POOLS = 2
CRON_EVERY = 1.5
LOOK_EVERY = 0.2
PARTING = 20.0  # seconds
LOST = 0.3  # of all hints: whoever should have sent them died between the commit and the hint
log = logging.getLogger(__name__)


class LossyQueue:
    """Passes most hints on; implements QueueInterface."""

    def __init__(self, queue: QueueInterface, chance: Random, *, lost: float = LOST) -> None:
        self._queue = queue
        self._lost = lost
        self._chance = chance
        self.name = queue.name

    def offer(self, ref: JobRef) -> bool:
        """Lose the hint, or pass it on."""
        return self._chance.random() < self._lost or self._queue.offer(ref)

    def close(self) -> None:
        """Close the queue behind."""
        self._queue.close()


class Crew:
    """Everything that runs jobs, from `start` to `stop`."""

    def __init__(self, stage: Stage, *, network: Network | None) -> None:
        self._stage = stage
        self._network = network
        self._pools: dict[int, subprocess.Popen[bytes]] = {}
        self._over = Event()
        self._keeping = Event()
        self._keeper, self._cron = Thread(target=self._keep_pools), Thread(target=self._be_cron)
        self.cron_rests = Event()
        self._port = network.forward(stage.cluster.port) if network else 0
        self._log = (stage.logs / "workers.log").open("ab")

    def start(self) -> None:
        """Start the pools and cron; each pool is started again when it has ended, as an init system would."""
        self._keeping.set()
        self._keeper.start()
        self._cron.start()

    def dismiss(self) -> None:
        """End the pools in good order, and let the others finish; cron goes on, for what the dead have left."""
        self._keeping.clear()
        self._keeper.join()
        processes.terminate(*(pool.pid for pool in self._pools.values()))
        for pool in self._pools.values():
            with suppress(subprocess.TimeoutExpired):
                pool.wait(PARTING)
        becomes_true(lambda: not self.everybody(), within=PARTING, every=0.1)

    def stop(self) -> None:
        """End whatever is left by force, and cron."""
        self._over.set()
        self._keeping.clear()
        self._cron.join()
        self._keeper.join()
        processes.kill(*self.everybody())
        for pool in self._pools.values():
            pool.wait(PARTING)
        self._log.close()

    def exec_queue(self) -> ExecQueue:
        """Return what launches a worker for a job."""
        environment = self._stage.environment("exec")
        slots = SlotFolder(self._stage.settings("exec").slot_dir, 2)
        program = ("-m", "cli.testing.worker", PLACE)
        log_file = self._stage.logs / "workers.log"
        return ExecQueue(root=ROOT, slots=slots, log_file=log_file, environment=environment, program=program)

    def pool_queue(self) -> QueueInterface:
        """Return what wakes the pools."""
        return pool_queue(self._stage.settings("pool"))

    def everybody(self) -> list[int]:
        """Return every process of the run's workers."""
        marked = set(processes.marked(MARK, str(self._stage.folder)))
        # A child that shows a title has written it over its environment, the mark with it.
        return sorted(marked | {child for pid in marked for child in processes.children(pid)})

    def workers(self) -> dict[int, list[int]]:
        """Return the supervisors that live, each with its children that run jobs."""
        everybody = set(self.everybody())
        children = {pid: [child for child in processes.children(pid) if child in everybody] for pid in everybody}
        born = {child for found in children.values() for child in found}
        return {pid: found for pid, found in sorted(children.items())
                if pid not in born and processes.leads_a_group(pid)}  # fmt: skip

    def only_pools_are_left(self) -> bool:
        """Say whether every worker for a single job has gone."""
        return set(self.workers()) <= {pool.pid for pool in self._pools.values()}

    def _keep_pools(self) -> None:
        while self._keeping.is_set():
            for number in range(POOLS):
                pool = self._pools.get(number)
                if pool is None or pool.poll() is not None:
                    self._pools[number] = self._start_pool(number)
            self._over.wait(LOOK_EVERY)

    def _start_pool(self, number: int) -> subprocess.Popen[bytes]:
        prefix, url = [], ""
        if self._network is not None and number == 0:
            prefix = self._network.prefix()
            here, there = f"127.0.0.1:{self._stage.cluster.port}", f"{self._network.our_ip}:{self._port}"
            url = self._stage.url.replace(here, there)
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "cli.testing.worker", PLACE, "pool"],
            cwd=ROOT,
            env=self._stage.environment("pool", url),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def _be_cron(self) -> None:
        settings = self._stage.settings("exec")
        passes = Maintenance(
            engine=engine_link(settings),
            queue=self.exec_queue(),
            terms=Terms(
                dead_after=timedelta(seconds=settings.dead_after_seconds),
                reoffer_after=timedelta(seconds=settings.reoffer_after_seconds),
                retention=timedelta(days=settings.retention_days),
            ),
        )
        while not self._over.wait(CRON_EVERY):
            if not self.cron_rests.is_set():
                try:
                    passes.run_once()
                except (psycopg.Error, PassesFailed) as error:
                    log.info("cron: %s", error)
        passes.close()
