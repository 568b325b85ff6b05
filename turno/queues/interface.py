"""The border between accepting a job and having it run."""

from typing import Protocol

from turno.jobs.job import JobRef

# A launched worker finds its place on the host in it; nothing else has it in its environment.
PLACE_VARIABLE = "TURNO_SLOT"
# In the command line of a launched worker, where every process can see it, also of one that nobody can look into.
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
        """Let go of what the backend holds in this process; running workers go on."""
