"""Where a supervisor's claims come from; each backend has its own."""

from collections.abc import Collection, Sequence
from typing import Protocol
from uuid import UUID

from turno.jobs.claim import Batch
from turno.store.engine.tickets import TypeVersion


class Source(Protocol):
    """Claims for the children that are free."""

    @property
    def types(self) -> Sequence[TypeVersion]:
        """Return what it claims jobs of."""

    @property
    def queues(self) -> Sequence[str] | None:
        """Return the queues it claims from; None means any."""

    @property
    def exhausted(self) -> bool:
        """Say whether nothing will come any more, so that an idle supervisor may leave."""

    @property
    def processes(self) -> set[int]:
        """Return which processes it has started: they are no job's."""

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Batch]:
        """Claim for up to `free` children, nothing of the tenants `without`; none means there is nothing to do now."""

    def learn(self, job_type: str, seconds: float) -> None:
        """Note how long a child took for each job of a batch of this type."""

    def pause(self) -> None:
        """Keep nothing from other workers: every child is busy, or this worker leaves."""

    def patience(self) -> float:
        """Return the seconds after which `take` wants to be called again, whatever happens."""

    def descriptor(self) -> int | None:
        """Return what becomes readable when a hint arrives."""

    def hear(self) -> None:
        """Read the hints that have arrived."""

    def drop_in_child(self) -> None:
        """In a forked child: let go of what is the parent's."""
