"""The independent checker: holds a whole installation to I1 to I10, from PostgreSQL and the clients' log alone."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from threading import Lock
from typing import IO, Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from turno.tenancy.identity.tenant import Tenant
from turno.testing.invariants import judge_of


class Submission(NamedTuple):
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
        self._answers: dict[Submission, set[UUID]] = defaultdict(set)
        self._lock = Lock()

    def ask(self, submitted: Submission) -> None:
        """Note that a request is about to be sent; its answer may never come."""
        self._note({"submitted": submitted})
        with self._lock:
            self._answers[submitted].update()

    def answer(self, submitted: Submission, job_id: UUID) -> None:
        """Note that a request was answered: this job was accepted."""
        self._note({"submitted": submitted, "job": str(job_id)})
        with self._lock:
            self._answers[submitted].add(job_id)

    def accepted(self, tenant: str) -> list[UUID]:
        """Return every job that a client of the tenant was promised."""
        with self._lock:  # clients add answers while a checker reads them
            return [job for submitted, jobs in self._answers.items() if submitted.tenant == tenant for job in jobs]

    def contradictions(self) -> list[str]:
        """Name the keys for which clients received two jobs."""
        with self._lock:
            return [f"I1: one key was answered with two jobs: {submitted.tenant} {submitted.key}"
                    for submitted, jobs in self._answers.items() if len(jobs) > 1]  # fmt: skip

    def not_submitted(self, tenant: str, submissions: Collection[tuple[str, str, str | None]]) -> list[str]:
        """Name the jobs, as (user, type, key), without a request."""
        return [f"I1: a job without a submission: {tenant} {kind} {key}"
                for user, kind, key in submissions
                if Submission(tenant, user, kind, str(key)) not in self._answers]  # fmt: skip

    def __len__(self) -> int:
        return len(self._answers)

    def _note(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            with self._lock:
                print(json.dumps(line), file=self._file, flush=True)


class Checker:
    """Checks each tenant by the rules of all jobs and by your rules; each rule is a query for its violations."""

    def __init__(
        self,
        url: str,
        tenants: Iterable[Tenant],
        *,
        log: ClientLog | None = None,
        effects: Mapping[str, LiteralString] | None = None,
    ) -> None:
        """`url` is the superuser's; `log` has the answers to clients; `effects` are rules for the effects."""
        self._url = url
        self._tenants = list(tenants)
        self._log = log
        self._effects = effects

    def violations(self, *, settled: bool = False) -> list[str]:
        """Name the present violations; with `settled`, all work must have ended without leftovers."""
        violations = self._log.contradictions() if self._log is not None else []
        with ExitStack() as stack:
            for tenant in self._tenants:
                judge = stack.enter_context(judge_of(self._url, tenant, self._effects))
                accepted = self._log.accepted(tenant.slug) if self._log is not None else []
                violations += judge.broken(accepted=accepted)
                if settled:
                    violations += judge.unsettled()
                if self._log is not None:
                    violations += self._log.not_submitted(tenant.slug, self._keys(tenant))
            if settled and self._tenants:
                violations += judge.left_behind()
        return violations

    def _keys(self, tenant: Tenant) -> list[tuple[str, str, str | None]]:
        # A retry names the job that it continues; jobs of capabilities have no submission.
        query = sql.SQL(
            "SELECT j.user_id, j.type, j.idempotency_key FROM {0}.background_jobs j WHERE j.parent_id IS NULL"
            " AND j.origin IS NULL"
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            return connection.execute(query.format(sql.Identifier(tenant.schema))).fetchall()
