"""The requests and answers of clients, which the database does not contain."""

import json
from collections import defaultdict
from collections.abc import Collection
from threading import Lock
from typing import IO, Any, NamedTuple
from uuid import UUID


class Asked(NamedTuple):
    """One intention of a client's, however often it pressed the button: the idempotency key names it."""

    tenant: str
    user: str
    type: str
    key: str


class ClientLog:
    """Remembers each intention before it is sent and each answer after it came; safe to share between threads."""

    def __init__(self, file: IO[str] | None = None) -> None:
        """With `file`, each line is also written there as JSON, for a later examination of the run."""
        self._file = file
        self._answers: dict[Asked, set[UUID]] = defaultdict(set)
        self._lock = Lock()

    def ask(self, asked: Asked) -> None:
        """Note that a request is about to be sent; its answer may never come."""
        self._note({"asked": asked})
        with self._lock:
            self._answers[asked].update()

    def answer(self, asked: Asked, job_id: UUID) -> None:
        """Note that a request was answered: this job was accepted."""
        self._note({"asked": asked, "job": str(job_id)})
        with self._lock:
            self._answers[asked].add(job_id)

    def accepted(self, tenant: str) -> list[UUID]:
        """Return every job that a client of the tenant was promised."""
        with self._lock:  # clients add answers while a checker reads them
            return [job for asked, jobs in self._answers.items() if asked.tenant == tenant for job in jobs]

    def contradictions(self) -> list[str]:
        """Name the keys for which clients received two jobs."""
        with self._lock:
            return [f"I1: one key was answered with two jobs: {asked.tenant} {asked.key}"
                    for asked, jobs in self._answers.items() if len(jobs) > 1]  # fmt: skip

    def unasked(self, tenant: str, found: Collection[tuple[str, str, str | None]]) -> list[str]:
        """Name the jobs, as (user, type, key), without a request."""
        return [f"I1: a job without a submission: {tenant} {kind} {key}"
                for user, kind, key in found if Asked(tenant, user, kind, str(key)) not in self._answers]  # fmt: skip

    def __len__(self) -> int:
        return len(self._answers)

    def _note(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            with self._lock:
                print(json.dumps(line), file=self._file, flush=True)
