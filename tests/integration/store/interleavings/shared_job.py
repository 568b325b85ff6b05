"""A job that two or three sessions share, the initial state of a scenario, and the steps of engine and web."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from tests import attempt_steps, claiming
from tests.installation import ExampleInstallation
from tests.permutations import Session, Step
from turno.dispatch.dispatcher import CANCEL, ENQUEUE, RETRY, submission
from turno.jobs.job import Claim
from turno.runner.session import HandlerConnection
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import handler_session, qualified_statement, service_session
from turno.testing.invariants import Judge

TYPES = [("batch_invoicing", 1)]
NOW = timedelta(0)
MONTH = timedelta(days=30)
HOUR = timedelta(hours=1)


@dataclass
class SharedJob:
    """The job that the sessions share, and the sessions, which are opened at first use."""

    example: ExampleInstallation
    judge: Judge
    stack: ExitStack
    sessions: dict[str, Session] = field(default_factory=dict)
    job_id: UUID = field(default_factory=lambda: UUID(int=0))
    worker: UUID = field(default_factory=lambda: UUID(int=0))
    lost: list[UUID] = field(default_factory=list)  # jobs without their tickets after a scenario

    def session(self, name: str) -> Session:
        """Return the session of that name; its first word is the login's role."""
        session = self.sessions.get(name)
        if session is not None:
            with suppress(psycopg.OperationalError):
                session.execute("SELECT 1")
                return session
            psycopg.Connection.close(session)
        session = self.sessions[name] = self._open(name.split(maxsplit=1)[0])
        self.stack.callback(psycopg.Connection.close, session)
        return session

    def _open(self, login: str) -> Session:
        logins = self.example.logins
        if login == "gate":
            return psycopg.connect(self.example.url, autocommit=True)
        if login == "handler":
            return handler_session(logins, self.example.handler_login(), application="test", kind=HandlerConnection)
        return service_session(logins, {"engine": logins.engine, "web": logins.web}[login], application="test")

    def clear(self) -> None:
        """Forget all jobs; TRUNCATE would take longer than the scenario."""
        self.lost.clear()
        self.example.rows(
            """
            DELETE FROM background_jobs; DELETE FROM background_job_attempt_rows;
            DELETE FROM background_job_progress_rows; DELETE FROM background_job_items;
            DELETE FROM background_job_event_rows;
            DELETE FROM notifications_of_reviews;
            DELETE FROM background_jobs_dead_letter; DELETE FROM customers WHERE country = 'effect';
            DELETE FROM turno.tickets; DELETE FROM turno.workers; DELETE FROM turno.leases
            """
        )

    # Initial states of a scenario ---------------------------------------------------------------

    def waiting(self, **options: Any) -> UUID:
        self.job_id = self.example.enqueue({"order_ids": [1]}, **options)
        self.worker = self.example.engine.start_worker(backend="exec", host="test", pid=1)
        return self.job_id

    def claimed(self, **options: Any) -> Claim:
        self.waiting(**options)
        claim = self.example.engine.claim_job(self.worker, self.job_id, types=TYPES)
        assert claim
        return claim

    def started(self, by: str = "handler", **options: Any) -> Claim:
        claim = self.claimed(**options)
        attempt_steps.start(self.session(by), claim, "test")
        if by != "handler":  # as of a session that has ended, so that a later session may take over the attempt
            self.example.rows(
                "UPDATE background_job_attempt_rows SET backend_start = 'epoch' WHERE job_id = %s", claim.job_id
            )
        return claim

    def without_ticket(self) -> None:
        self.example.rows("DELETE FROM turno.tickets WHERE job_id = %s", self.job_id)
        self.lost.append(self.job_id)

    def ended_long_ago(self, **options: Any) -> UUID:
        self.waiting(**options)
        self.example.cancel(self.job_id)
        self.example.rows("UPDATE background_jobs SET finished_at = finished_at - interval '31 days'")
        return self.job_id

    # Steps of the sessions ----------------------------------------------------------------------

    def claims(self) -> Step:
        def step(engine: Session) -> str:
            return "taken" if Engine.on(engine).claim_job(self.worker, self.job_id, types=TYPES) else "nothing"

        return step

    def claims_next(self) -> Step:
        def step(engine: Session) -> str:
            options: dict[str, Any] = {"queues": ["cold"], "types": TYPES, "backend": "exec", "slots": 1}
            return "taken" if claiming.claim(Engine.on(engine), self.worker, **options) else "nothing"

        return step

    def rescues(self, claim: Claim) -> Step:
        return lambda engine: Engine.on(engine).rescue(
            self.example.one.schema, claim.job_id, claim.token, cause="test", retry_in=NOW
        )

    def repairs(self) -> Step:
        return lambda engine: f"repaired {Engine.on(engine).repair(self.example.one.schema, 'exec')}"

    def expires(self) -> Step:
        return lambda engine: f"expired {Engine.on(engine).expire(self.example.one.schema)}"

    def purges(self) -> Step:
        return lambda engine: f"purged {Engine.on(engine).purge(self.example.one.schema, MONTH, 10)}"

    def prunes(self) -> Step:
        return lambda engine: f"pruned {Engine.on(engine).prune_workers(HOUR)}"

    def lives(self) -> Step:
        return lambda engine: "dead" if Engine.on(engine).keep_alive(self.worker) is None else "alive"

    def asks(self, statement: LiteralString, parameters: tuple[Any, ...]) -> Step:
        question = qualified_statement(statement, self.example.one.schema)

        def step(web: Session) -> str:
            web.execute("SELECT set_config('role', %s, true)", (self.example.one.api_role,))
            row = web.execute(question, parameters).fetchone()
            assert row
            return str(row[-1])

        return step

    def cancels(self) -> Step:
        return self.asks(CANCEL, (self.job_id, None, "test"))

    def retries(self) -> Step:
        return self.asks(RETRY, (self.job_id, None, "exec", None, None, None, False))

    def enqueues(self, key: str | None, order: int = 1) -> Step:
        new = self.example.new_job({"order_ids": [order]}, idempotency_key=key)
        return self.asks(ENQUEUE, submission(new))

    def leads(self, holder: str) -> Step:
        return lambda engine: "leads" if Engine.on(engine).take_lease("test", holder, HOUR) else "follows"

    # How it ended ------------------------------------------------------------------------------

    def end(self) -> str:
        """Return how the jobs stand: status, crashes and errors if any, and the ticket."""
        rows = self.example.rows(
            """
            SELECT concat_ws(' ', j.status, CASE WHEN j.cancel_requested_at IS NOT NULL THEN 'to cancel' END,
                             CASE WHEN j.errors > 0 THEN 'after an error' END,
                             CASE WHEN j.crashes > 0 THEN 'after a crash' END,
                             CASE WHEN t.state = 'running' AND NOT EXISTS (SELECT FROM turno.workers w
                                                                           WHERE w.id = t.worker_id)
                                  THEN 'orphan' ELSE coalesce(t.state, 'no ticket') END) AS job
            FROM background_jobs j LEFT JOIN turno.tickets t ON t.job_id = j.id ORDER BY j.id
            """
        )
        return ", ".join(row["job"] for row in rows) or "no job"
