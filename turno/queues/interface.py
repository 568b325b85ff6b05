"""The interface of every backend: the hint that a committed job waits."""

from typing import Protocol

from turno.jobs.job import JobRef

# The variable with a launched worker's slot on the host; no other process has it.
SLOT_VARIABLE = "TURNO_SLOT"
# Arguments that mark a launched worker: every process may read a command line, also of a process closed to tracing.
LAUNCHED = ("-X", "turno-launched")


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
