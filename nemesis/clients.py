"""Impatient clients: they submit jobs, some twice, repeat unanswered requests, cancel and retry."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import asdict
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psycopg

from nemesis.hints import LossyQueue
from nemesis.http_client import NoAnswer
from nemesis.work import Invoicing, Plain, Work
from turno.dispatch.dispatcher import Dispatcher
from turno.jobs.job import Priority
from turno.jobs.new_job import NewJob
from turno.testing.checker import Submission

if TYPE_CHECKING:
    from uuid import UUID

    from nemesis.environment import Environment
    from nemesis.http_client import HttpClient
    from nemesis.workload import Workload
    from turno.queues.interface import QueueInterface
    from turno.tenancy.identity.tenant import Tenant
    from turno.testing.checker import ClientLog
    from turno.testing.leak_detector import LeakDetector

AGAIN = 0.2  # seconds until a client repeats an unanswered request
CANCELLED = 0.15  # of all jobs
log = logging.getLogger(__name__)


class Client(Thread):
    """A client with its own random numbers."""

    def __init__(
        self,
        number: int,
        seed: int,
        environment: Environment,
        *,
        workload: Workload,
        http_client: HttpClient,
        client_log: ClientLog,
        leak_detector: LeakDetector,
    ) -> None:
        super().__init__(name=f"client-{number}")
        self._user = f"user-{number}"
        self._chance = Random(f"{seed}/{number}")  # noqa: S311 - reproducible, not secret
        self._environment = environment
        self._workload = workload
        self._http_client = http_client
        self._client_log = client_log
        self._leak_detector = leak_detector
        self._over = Event()
        self._requested = 0

    def leave(self) -> None:
        """Stop sending requests."""
        self._over.set()

    def run(self) -> None:
        """Submit jobs in sequence."""
        while self._workload.requested and not self._over.wait(self._chance.expovariate(2.5)):
            with suppress(psycopg.Error):
                if self._environment.open_jobs() < self._workload.most_open:
                    self._ask()

    def _ask(self) -> None:
        tenant = self._chance.choice(self._environment.tenants)
        handler, payload = self._workload.draw(self._chance, lambda n: self._environment.new_orders(tenant, n))
        if handler is not Invoicing:
            payload["note"] = self._leak_detector.marker_of(tenant)
        self._requested += 1
        requested = Submission(tenant.slug, self._user, handler.type, f"{self._user}-{self._requested}")
        body = {"payload": payload, "priority": self._chance.choice(list(Priority)).word}
        self._client_log.ask(requested)
        job_id = None
        for _ in range(self._chance.choice((1, 1, 2, 3))):
            job_id = self._submit(tenant, requested, body) or job_id
        if job_id is not None and self._chance.random() < CANCELLED:
            self._cancel_or_retry(tenant, job_id)

    def _submit(self, tenant: Tenant, requested: Submission, body: dict[str, Any]) -> UUID | None:
        """Repeat a submission until the web answers or the client stops."""
        while not self._over.is_set():
            path = f"/api/jobs/{requested.type}"
            try:
                job_id = self._http_client.ask(
                    self._user, tenant, path, body, key=requested.key, chance=self._chance
                ).job_id  # fmt: skip
            except NoAnswer as error:
                log.info("no answer: %s", error)
                self._over.wait(AGAIN)
                continue
            if job_id is not None:
                self._client_log.answer(requested, job_id)
            return job_id
        return None

    def _cancel_or_retry(self, tenant: Tenant, job_id: UUID) -> None:
        """Cancel, and sometimes retry; do not repeat an unanswered request."""
        self._over.wait(self._chance.uniform(0, 1.5))
        with suppress(NoAnswer):
            self._http_client.ask(self._user, tenant, f"/api/jobs/{job_id}/cancel", {})
            if self._chance.choice((True, False)):
                again = self._http_client.ask(self._user, tenant, f"/api/jobs/{job_id}/retry", {}).job_id
                if again is not None:
                    self._client_log.answer(Submission(tenant.slug, self._user, "retry", str(job_id)), again)


def submit_without_hint(environment: Environment, queue: QueueInterface, client_log: ClientLog) -> None:
    """Submit a last job of each tenant and lose its hint: only maintenance finds the job."""
    for tenant in environment.tenants:
        requested = Submission(tenant.slug, "last", Plain.type, "the last")
        wanted = NewJob.of(Plain, asdict(Work()), user_id="last", idempotency_key=requested.key)
        client_log.ask(requested)
        lossy = LossyQueue(queue, Random(0), lost=1.0)  # noqa: S311 - certain anyway
        job_id = Dispatcher(connection=environment.web, queue=lossy, pending_limit=1).submit(tenant, wanted).job_id
        if job_id is not None:
            client_log.answer(requested, job_id)
