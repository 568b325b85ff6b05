"""Which jobs changed: gathered, written as the payloads of notifications, and read again."""

import re
from threading import Lock
from uuid import UUID

# A name has 43 bytes at most, with the space after it; PostgreSQL refuses payloads of 8000 bytes.
NAMES_A_PAYLOAD = 180
NAME = re.compile(r"([0-9]{1,9}):([0-9a-f]{32})", re.ASCII)

Jobs = dict[int, set[UUID]]


class Changes:
    """The jobs that changed since they were last taken, each named once, by their tenant's number."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, tenant_id: int, job_id: UUID) -> None:
        """Note that a job changed."""
        with self._lock:
            self._names.add(f"{tenant_id}:{job_id.hex}")

    def take(self) -> list[str]:
        """Return the payloads that name all jobs, and clear the outbox."""
        with self._lock:
            names, self._names = list(self._names), set()
        return [" ".join(names[start : start + NAMES_A_PAYLOAD]) for start in range(0, len(names), NAMES_A_PAYLOAD)]


def read_payload(payload: str) -> Jobs:
    """Return the jobs that a payload names, by tenant; raises ValueError if it was not written by `take`."""
    jobs: Jobs = {}
    for name in payload.split(" "):
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError("not a payload that names jobs")
        jobs.setdefault(int(match[1]), set()).add(UUID(match[2]))
    return jobs
