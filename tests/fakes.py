"""Fakes for components that a test does not start."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turno.jobs.job import JobRef


class RecordingQueue:
    """A queue that records its offers; on request it fails like a lost broker.

    For tenants that are `full` it has no room.
    """

    name = "exec"
    useful = 100

    def __init__(self, *, broken: bool = False) -> None:
        self.offered: list[JobRef] = []
        self.broken = broken
        self.full: set[str] = set()
        self._lock = Lock()

    def offer(self, ref: JobRef) -> bool:
        if self.broken:
            raise ConnectionError("the broker is gone")
        if ref.tenant in self.full:
            return False
        with self._lock:
            self.offered.append(ref)
        return True

    def close(self) -> None:
        pass
