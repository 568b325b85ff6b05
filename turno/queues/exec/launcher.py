"""The backend without resident workers: a detached process per waiting job, as many as the host has slots."""

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

from turno import crash_points
from turno.environment import handed_over
from turno.jobs.job import JobRef
from turno.queues.exec.slots import Slot, SlotFolder
from turno.queues.interface import LAUNCHED, SLOT_VARIABLE

log = logging.getLogger(__name__)

PROGRAM = "turno.commands.background_worker"


class ExecQueue:
    """Launches `turno.commands.background_worker <job_id>` and forgets it; implements QueueInterface."""

    name = "exec"

    def __init__(
        self,
        *,
        root: Path,
        slots: SlotFolder,
        log_file: Path,
        environment: Mapping[str, str] = os.environ,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """`root` is the folder that holds the packages: the worker finds them there.

        `secrets` are handed over to it through a pipe and are absent from its environment.
        """
        self._root = root
        self._slots = slots
        self._log_file = log_file
        self._environment = environment
        self._secrets = secrets or {}
        self.useful = slots.limit + slots.reserve

    def offer(self, ref: JobRef) -> bool:
        """Launch a worker for this job if a slot is free; otherwise a worker that becomes free will claim it."""
        slot = None
        try:
            slot = self._slots.take(ref.tenant)
            if slot is None:
                return False
            crash_points.reach("slot_taken")
            self._launch(ref, slot)
            crash_points.reach("launched")
        except OSError as error:
            # No process or file descriptor can be had: the job waits, and the sweep offers it again.
            log.warning("worker not launched: %s", error, extra={"tenant": ref.tenant, "job_id": str(ref.job_id)})
            return False
        finally:
            if slot is not None:
                slot.close()
        return True

    def close(self) -> None:
        """Do nothing: a launched worker does not depend on this process."""

    def _launch(self, ref: JobRef, slot: Slot) -> None:
        with self._log_file.open("ab") as output, handed_over(self._secrets) as (secrets, inherited):
            worker = subprocess.Popen(
                [sys.executable, *LAUNCHED, "-m", PROGRAM, str(ref.job_id)],
                env={
                    **self._environment,
                    "PYTHONPATH": os.pathsep.join(filter(None, (str(self._root), self._environment.get("PYTHONPATH")))),
                    "TURNO_DOTENV": "read",
                    SLOT_VARIABLE: slot.handed,
                    **secrets,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[slot.descriptor, *inherited],
                start_new_session=True,
            )
        # Reaped as soon as it ends, so that no zombie waits for the next request.
        Thread(target=worker.wait, name=f"reap-{worker.pid}", daemon=True).start()
