"""What every backend implements: the hint that a committed job waits."""

from typing import Protocol

from turno.jobs.job import JobRef

# The variable that tells a launched worker its slot on the host; no other process has it.
SLOT_VARIABLE = "TURNO_SLOT"
# Arguments that mark a launched worker: every process may read a command line, also of a process closed to tracing.
LAUNCHED = ("-X", "turno-launched")


class QueueInterface(Protocol):
    """Tells some worker that a committed job may run.

    A hint: `offer` may be lost, repeated or late, and nothing breaks, because the ticket is the truth and
    the sweep offers again what nobody took. It returns at once and never raises for a missing worker.
    """

    name: str

    @property
    def useful(self) -> int:
        """Return how many offers at a time are of any use, however many jobs wait."""

    def offer(self, ref: JobRef) -> bool:
        """Hint that this job is ready; say whether a worker was told (False: it waits for a free one)."""

    def close(self) -> None:
        """Close what the backend has open in this process; running workers go on."""
