"""Where a supervisor's claims come from; each backend has its own."""

from collections.abc import Collection, Sequence
from uuid import UUID

from turno.jobs.job import Batch
from turno.store.engine.engine import TypeVersion


class Source:
    """Claims for the free children. A backend overrides the methods that it needs."""

    types: Sequence[TypeVersion]  # the types and versions of its jobs
    queues: Sequence[str] | None = None  # the queues it claims from; None means any
    exhausted = False  # whether nothing will come any more, so that an idle supervisor may leave

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Batch]:
        """Claim for up to `free` children, nothing of the tenants `without`; none means there is nothing to do now."""
        raise NotImplementedError

    def poll_in(self) -> float:
        """Return the seconds after which `take` must be called again."""
        raise NotImplementedError

    def learn(self, job_type: str, seconds: float) -> None:
        """Note how long a child took for each job of a batch of this type."""

    def pause(self) -> None:
        """Keep nothing from other workers: every child is busy, or this worker stops."""

    def descriptor(self) -> int | None:
        """Return the descriptor that becomes readable when a hint arrives; None without hints."""
        return None

    def read_hints(self) -> None:
        """Read the hints that have arrived; also called when a job that was taken back could run again at once."""

    @property
    def processes(self) -> set[int]:
        """Return which processes it has started: they are no job's."""
        return set()

    def drop_in_child(self) -> None:
        """In a forked child: close the copies of the parent's descriptors."""
