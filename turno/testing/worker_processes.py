"""The real processes of an installation under test: they are started as in production, and killed at the test's end."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from turno.queues.exec.launcher import PROGRAM
from turno.testing.processes import is_launched, kill, marked


@dataclass(kw_only=True)
class WorkerProcesses:
    """Starts Turno's programs in the environment of an installation."""

    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that belongs to the installation."""
        raise NotImplementedError

    def start_worker(self, job_id: UUID, *, crash_at: str | None = None, **extra: str) -> subprocess.Popen[str]:
        """Start a worker on a job, in a new process session."""
        environment = self.environment | extra
        if crash_at:
            environment["TURNO_CRASH_AT"] = crash_at
        return self._start(PROGRAM, str(job_id), environment=environment)

    def start_pool(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a resident worker."""
        return self._start("turno.commands.main", "work", *arguments, environment=self.environment | extra)

    def start_consumer(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a consumer of the broker that `extra` names, as with `start_pool`."""
        return self._start(
            "turno.commands.main", "work", "--from-broker", *arguments, environment=self.environment | extra
        )

    def start(self, *command: str, **extra: str) -> subprocess.Popen[str]:
        """Start a command of `turno`."""
        return self._start("turno.commands.main", *command, environment=self.environment | extra)

    def _start(self, module: str, *arguments: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
        return self._spawn([sys.executable, "-m", module, *arguments], environment)

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.workers.append(worker)
        return worker

    def work(self, job_id: UUID, *, crash_at: str | None = None, **extra: str) -> str:
        """Run the real worker to its end and return its log."""
        output, _ = self.start_worker(job_id, crash_at=crash_at, **extra).communicate(timeout=60)
        return output

    def stop_workers(self) -> None:
        """Kill the processes of this installation's tests, launched ones included; children die with their parent."""
        while self.workers:
            with self.workers.pop() as worker:
                worker.kill()
        kill(*filter(is_launched, marked("TURNO_RUN_FOLDER", self.environment["TURNO_RUN_FOLDER"])))
