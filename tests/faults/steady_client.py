"""A client that submits jobs all the while, and knows which of them were accepted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from uuid import UUID

import psycopg

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.tenancy.identity.session import call_as_api, service_session
from turno.testing.wait import wait_until


@dataclass
class SteadyClient:
    """Submits under successive idempotency keys; a lost reply is requested again."""

    example: ExampleInstallation
    accepted: dict[str, UUID] = field(default_factory=dict)
    refusals: int = 0
    enough: Event = field(default_factory=Event)

    def submit(self) -> None:
        session, number = None, 0
        while not self.enough.wait(0.02):  # a pace that a worker can follow
            new = self.example.new_job({"how": "ok"}, handler=Faulty, idempotency_key=f"key-{number}")
            logins = self.example.logins
            try:
                session = session or service_session(logins, logins.web, application="client")
                answer = call_as_api(session, self.example.one, ENQUEUE, submission(new))
            except psycopg.OperationalError:
                self.refusals += 1
                if session is not None:
                    session.close()
                session = None
            else:
                self.accepted[f"key-{number}"] = answer["job_id"]
                number += 1
        if session is not None:
            session.close()

    def wait_for_more(self, count: int = 10) -> None:
        before = len(self.accepted)
        assert wait_until(lambda: len(self.accepted) > before + count, within=30)

    def assert_none_lost_or_doubled(self) -> None:
        """Every accepted job is there and completed once; of one more the reply may have been lost."""
        rows = self.example.rows("SELECT idempotency_key, id FROM background_jobs WHERE idempotency_key IS NOT NULL")
        result = {row["idempotency_key"]: row["id"] for row in rows}
        assert self.accepted.items() <= result.items()
        assert len(result) - len(self.accepted) <= 1
        reply = "SELECT count(*) AS n FROM notifications WHERE job_id = ANY (%s) AND kind = 'completed'"
        assert self.example.rows(reply, list(result.values())) == [{"n": len(result)}]
        assert self.example.rows("SELECT sum(crashes) AS n FROM background_jobs") == [{"n": 0}]


@contextmanager
def steady_client(example: ExampleInstallation) -> Iterator[SteadyClient]:
    """Submit from a thread until the end of the block."""
    client = SteadyClient(example)
    thread = Thread(target=client.submit)
    thread.start()
    try:
        yield client
    finally:
        client.enough.set()
        thread.join()
