"""Run attempts in the test's own process: no worker, no fork, a debugger works."""

import os
import socket
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from turno.jobs.handler import Registry
from turno.jobs.job import Claim
from turno.runner.executor import Executor
from turno.runner.session import HandlerConnection, Sessions
from turno.runner.shared_state import WorkerCallbacks
from turno.store.engine.claims import Claimer
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker.claim_logins import with_company

if TYPE_CHECKING:
    from turno.testing.installation import Installation

STEADY = 0.5  # the middle of every jitter, so that a retry's time can be foretold


class InProcessWorker:
    """A worker without processes; it claims, executes and records exactly as a real one does."""

    def __init__(self, installation: "Installation", registry: Registry) -> None:
        self._installation = installation
        self._registry = registry
        self._sessions = Sessions(self._log_in)

    def claim(self, job_id: UUID) -> Claim | None:
        """Take one job; None if it may not run now."""
        return self._installation.engine.claim_job(self._worker(), job_id, types=self._registry.versions)

    def execute(self, claim: Claim) -> str:
        """Run the claim to its record and return the job's status."""
        executor = Executor(
            registry=self._registry,
            sessions=self._sessions,
            worker="here",
            callbacks=WorkerCallbacks(),
            chance=lambda: STEADY,
            settings=self._installation.settings,
        )
        if self._registry.handler(claim.type).reads_company:
            claim = with_company(self._installation.engine, claim)
        return executor.execute((claim,))[claim]

    def drain(self) -> Counter[str]:
        """Run the ready jobs in the order of a real claim, until none is left; count the outcomes of the attempts."""
        ended: Counter[str] = Counter()
        worker, engine = self._worker(), self._installation.engine
        claimer = Claimer(
            backend=self._installation.backend,
            queues=self._registry.queues,
            types=self._registry.versions,
            clock=count().__next__,  # a second passes for each poll, so that it finds newly due jobs
        )
        while batches := claimer.claim(engine, worker, slots=1):
            ended.update(self.execute(claim) for (claim,) in batches)
        engine.stop_worker(worker)
        return ended

    def _worker(self) -> UUID:
        return self._installation.engine.start_worker(
            backend=self._installation.backend,
            host=socket.gethostname(),
            pid=os.getpid(),
            types=self._registry.versions,
        )

    def _log_in(self, login: HandlerLogin) -> HandlerConnection:
        session = handler_session(
            self._installation.logins,
            login,
            application="test",
            kind=HandlerConnection,
            server_version=self._installation.admin.info.server_version,
        )
        if self._installation.clock.frozen:
            self._installation.clock.rule_session(session, login.schema)
        return session
