"""The processes of a run: resident workers and web, restarted when they end, workers for single jobs, and cron."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

from nemesis.environment import MARK
from turno.maintenance.tasks import MaintenanceFailed
from turno.testing import processes
from turno.testing.wait import wait_until
from turno.wiring.shared import ROOT, exec_queue, maintenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nemesis.environment import Environment
    from nemesis.network import Network
    from turno.queues.exec.launcher import ExecQueue

POOLS, CONSUMERS = 2, 2
CRON_EVERY = 1.5
LOOK_EVERY = 0.2
PARTING = 20.0  # seconds
log = logging.getLogger(__name__)


WEB = "web"


class Processes:
    """All processes that run jobs, from `start` to `stop`."""

    def __init__(self, environment: Environment, *, network: Network | None) -> None:
        """Connect the first pool through `network`; consumers start if the run has a broker."""
        self._environment = environment
        self._network = network
        self._port = network.forward(environment.cluster.port) if network else 0
        self._starts: dict[str, Callable[[], subprocess.Popen[bytes]]] = {WEB: self._start_web}
        self._starts |= {f"pool {number}": self._start_pool for number in range(POOLS)}
        if network is not None:
            self._starts["pool 0"] = self._start_far_pool
        if environment.broker_url:
            self._starts |= {f"consumer {number}": self._start_consumer for number in range(CONSUMERS)}
        self._residents: dict[str, subprocess.Popen[bytes]] = {}
        self._over = Event()
        self._keeping = Event()
        self._keeper, self._cron = Thread(target=self._keep_residents), Thread(target=self._run_cron)
        self.cron_paused = Event()
        self._log = environment.workers_log.open("ab")
        self._web_log = (environment.logs / "web.log").open("ab")

    def start(self) -> None:
        """Start the resident processes and cron; restart each resident process that ends, as an init system does."""
        self._keeping.set()
        self._keeper.start()
        self._cron.start()

    def dismiss(self) -> None:
        """Terminate the resident processes; workers for single jobs finish, and cron continues to rescue jobs."""
        self._keeping.clear()
        self._keeper.join()
        processes.terminate(*(resident.pid for resident in self._residents.values()))
        for resident in self._residents.values():
            with suppress(subprocess.TimeoutExpired):
                resident.wait(PARTING)
        wait_until(lambda: not self.everybody(), within=PARTING, every=0.1)

    def stop(self) -> None:
        """Kill the remaining processes and end cron."""
        self._over.set()
        self._keeping.clear()
        self._cron.join()
        self._keeper.join()
        processes.kill(*self.web_processes(), *self.everybody())
        for resident in self._residents.values():
            resident.wait(PARTING)
        self.close()

    def close(self) -> None:
        """Close the logs."""
        self._log.close()
        self._web_log.close()

    def exec_queue(self) -> ExecQueue:
        """Return the queue that launches a worker for each job."""
        return exec_queue(self._environment.settings("exec"), self._environment.variables("exec"))

    def everybody(self) -> list[int]:
        """Return the pids of all worker processes of the run."""
        marked = set(processes.marked(MARK, str(self._environment.folder)))
        # A process title overwrites the environment of a child, and so its mark.
        return sorted(marked | {child for pid in marked for child in processes.children(pid)})

    def workers(self) -> dict[int, list[int]]:
        """Return the living supervisors, each with the children that run jobs or speak AMQP."""
        everybody = set(self.everybody())
        children = {pid: [child for child in processes.children(pid) if child in everybody] for pid in everybody}
        born = {child for pids in children.values() for child in pids}
        return {pid: pids for pid, pids in sorted(children.items())
                if pid not in born and processes.leads_a_group(pid)}  # fmt: skip

    def web_processes(self) -> list[int]:
        """Return the parent of the web and its serving processes, or an empty list during a restart."""
        web = self._residents.get(WEB)
        return [] if web is None or web.poll() is not None else [web.pid, *processes.below(web.pid)]

    def only_residents_are_left(self) -> bool:
        """Return whether every worker for a single job has ended."""
        return set(self.workers()) <= {resident.pid for resident in self._residents.values()}

    def _keep_residents(self) -> None:
        while self._keeping.is_set():
            for name, start in self._starts.items():
                resident = self._residents.get(name)
                if resident is None or resident.poll() is not None:
                    self._residents[name] = start()
            self._over.wait(LOOK_EVERY)

    def _start_pool(self) -> subprocess.Popen[bytes]:
        return self._start_worker(["work"], self._environment.variables("pool", self._environment.linked_url()))

    def _start_far_pool(self) -> subprocess.Popen[bytes]:
        assert self._network is not None  # noqa: S101 - it is started where there is one
        local, remote = f"127.0.0.1:{self._environment.cluster.port}", f"{self._network.our_ip}:{self._port}"
        variables = self._environment.variables("pool", self._environment.url.replace(local, remote))
        return self._start_worker(["work"], variables, self._network.prefix())

    def _start_consumer(self) -> subprocess.Popen[bytes]:
        return self._start_worker(["work", "--from-broker"], self._environment.variables("rabbitmq"))

    def start_second_cron(self) -> Callable[[], object]:
        """Start a second maintenance process; returns the function that kills it."""
        second = self._start_unmarked("nemesis.second_cron", self._environment.web_variables())

        def kill() -> None:
            second.kill()
            second.wait(PARTING)

        return kill

    def _start_web(self) -> subprocess.Popen[bytes]:
        return self._start_unmarked("nemesis.web", self._environment.web_variables(self._environment.linked_url()))

    def _start_unmarked(self, module: str, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=self._web_log,
            stderr=self._web_log,
            start_new_session=True,
        )

    def _start_worker(
        self, program: list[str], variables: dict[str, str], prefix: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "turno.commands.main", *program],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def _run_cron(self) -> None:
        passes = maintenance(self._environment.settings("exec"), self._environment.variables("exec"))
        while not self._over.wait(CRON_EVERY):
            if not self.cron_paused.is_set():
                try:
                    passes.run_once()
                except (psycopg.Error, MaintenanceFailed) as error:
                    log.info("cron: %s", error)
        passes.close()
