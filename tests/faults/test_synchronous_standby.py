"""A synchronous standby that stops confirming: no answer 202 for a commit that a failover may lose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import LiteralString, NamedTuple, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.errors import Diagnostic
from psycopg.types.json import Jsonb

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from tests.faults.own_server import own_example
from tests.faults.standby import confirming_nothing, other_end, standby_of, synchronous
from tests.installation import ExampleInstallation
from turno.client import Unavailable
from turno.runner.session import HandlerConnection
from turno.tenancy.identity.connections import CommitUnconfirmed
from turno.tenancy.identity.session import handler_session
from turno.testing.wait import wait_until

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'"
ORDERS = {"order_ids": [1], "point_of_sale": 1}


class Answer(NamedTuple):
    """Whether the request was acknowledged, and the job it then names."""

    acknowledged: bool
    job_id: UUID | None = None


T = TypeVar("T")
Request = Callable[[], Answer]


@dataclass
class Replicated:
    """An installation with a web process, and the URL of its synchronous standby."""

    example: ExampleInstallation
    web: DemoWeb
    standby: str

    def post(self, path: str, body: object, **headers: str) -> Answer:
        try:
            answer = self.example.client(self.web).request("POST", path, body, headers)
        except Unavailable as error:
            if error.status != 503:
                raise
            return Answer(acknowledged=False)
        return Answer(acknowledged=True, job_id=UUID(answer["job_id"]))

    def call(self, function: LiteralString, *arguments: object) -> Answer:
        warnings: list[Diagnostic] = []
        with psycopg.connect(self.example.url, autocommit=True) as connection:
            connection.add_notice_handler(warnings.append)
            row = connection.execute(f"SELECT job_id FROM {function}", arguments).fetchone()  # noqa: S608 - literals
        assert row is not None
        return Answer(not warnings, row[0])

    def cancel_waits(self) -> bool:
        """Cancel each session's wait for the standby, and return False: the request's may have been none of them."""
        self.example.rows(f"SELECT pg_cancel_backend(pid) FROM ({WAITING}) AS w")  # noqa: S608 - a literal
        return False

    def cancelled(self, request: Callable[[], T]) -> T:
        """Cancel the request's wait for the standby, if it waits, and return its answer."""
        # The web's maintenance commits, too: a wait that was cancelled may be its own.
        with ThreadPoolExecutor(1) as thread:
            running = thread.submit(request)
            assert wait_until(lambda: running.done() or self.cancel_waits(), within=60)
            return running.result(60)


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory, postgres_template: Path) -> Iterator[Replicated]:
    folder = tmp_path_factory.mktemp("replicated")
    with (
        own_example(folder / "server", postgres_template, durable=True) as (cluster, example),
        standby_of(cluster, folder / "standby") as (sockets, _),
    ):
        synchronous(example)
        port = free_port()
        web = DemoWeb(
            port=port, environment=example.environment | {"TURNO_WEB_BIND": f"127.0.0.1:{port}"}, log=folder / "web"
        )
        web.start()
        try:
            yield Replicated(example, web, other_end(cluster, sockets)[0])
        finally:
            web.stop()


def posted(site: Replicated) -> Request:
    key = uuid4().hex
    return lambda: site.post("/api/jobs/batch_invoicing", {"payload": ORDERS}, **{"Idempotency-Key": key})


def retried(site: Replicated) -> Request:
    job_id = site.example.enqueue(ORDERS)
    assert site.example.cancel(job_id) == "cancelled"
    return lambda: site.post(f"/api/jobs/{job_id}/retry", {})


def enqueued(site: Replicated) -> Request:
    function: LiteralString = "turno.enqueue('suc0001', 'batch_invoicing', %s, key => %s)"
    return partial(site.call, function, Jsonb(ORDERS), uuid4().hex)


def enqueued_many(site: Replicated) -> Request:
    function: LiteralString = "turno.enqueue_many('suc0001', 'batch_invoicing', %s, keys => ARRAY[%s])"
    return partial(site.call, function, Jsonb([ORDERS]), uuid4().hex)


@pytest.mark.parametrize("prepare", [posted, retried, enqueued, enqueued_many])
def test_a_replay_waits_for_the_standby(replicated: Replicated, prepare: Callable[[Replicated], Request]) -> None:
    request = prepare(replicated)
    with confirming_nothing(replicated.standby):
        assert not replicated.cancelled(request).acknowledged
        assert not replicated.cancelled(request).acknowledged
    answer = request()
    assert answer.acknowledged
    with psycopg.connect(replicated.standby) as standby:
        replica = standby.execute("SELECT count(*) FROM turno.tickets WHERE job_id = %s", [answer.job_id])
        assert replica.fetchone() == (1,)


def test_an_unconfirmed_commit_ends_a_handler_s_session(replicated: Replicated) -> None:
    example = replicated.example
    session = handler_session(example.logins, example.handler_login(), application="test", kind=HandlerConnection)
    update = "UPDATE customers SET country = country WHERE id = (SELECT min(id) FROM customers)"
    try:
        with confirming_nothing(replicated.standby), pytest.raises(CommitUnconfirmed):
            replicated.cancelled(lambda: session.execute(update))
        assert session.closed
    finally:
        psycopg.Connection.close(session)
