"""The plan of docs/deploying.md under load: to RabbitMQ by way of a canary, and back while the broker is killed."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from cli.servers.private_rabbitmq import Node
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.repeating import Repeating
from turno.dispatch.dispatcher import BackendChoice, Dispatcher
from turno.jobs.new_job import NewJob
from turno.queues.interface import QueueInterface
from turno.store.operator import routing
from turno.store.operator.run_time_settings import set_tenant
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until
from turno.wiring.shared import queue_named

DEFAULT = "pool"


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory, example: ExampleInstallation) -> Iterator[Node]:
    with Node(folder=tmp_path_factory.mktemp("broker")) as node:
        example.faulty = True
        example.backend = "pool"
        example.extra |= {"RABBITMQ_URL": node.url, "TURNO_LOG_LEVEL": "ERROR"}
        yield node
        example.rows("TRUNCATE turno.settings")
        example.rows("UPDATE turno.tenants SET backend = NULL")


@pytest.fixture
def operator(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with service_session(example.logins, example.logins.operator, application="test") as session:
        yield session


class Web(Repeating):
    """Submits for both tenants in turn, each job to the backend that is chosen at that moment."""

    pause = 0.05

    def __init__(self, example: ExampleInstallation) -> None:
        super().__init__()
        self.jobs: dict[str, list[UUID]] = {slug: [] for slug in example.tenants}
        self._example = example
        self._queues: list[QueueInterface] = []
        choice = BackendChoice(
            connection=lambda: nullcontext(example.web), default=DEFAULT, open_queue=self._open, ttl=0.1
        )
        self._dispatcher = Dispatcher(
            connection=lambda: nullcontext(example.web), queue=choice.queue_of, pending_limit=100_000
        )

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for queue in self._queues:
            queue.close()

    def _open(self, name: str) -> QueueInterface:
        self._queues.append(queue_named(name, self._example.settings))
        return self._queues[-1]

    def once(self) -> None:
        wanted = NewJob.of(Faulty, {"how": "ok"}, user_id="ana")
        for slug, tenant in self._example.tenants.items():
            verdict = self._dispatcher.submit(tenant, wanted)
            assert verdict.job_id is not None
            self.jobs[slug].append(verdict.job_id)

    def goes_on(self) -> bool:
        target = len(self.jobs["suc0001"]) + 20
        return wait_until(lambda: len(self.jobs["suc0001"]) >= target, within=30)


def nothing_stranded(operator: psycopg.Connection[Any]) -> bool:
    return wait_until(lambda: sum(row["stranded"] for row in routing.counts(operator)) == 0, within=30)


@pytest.mark.rabbitmq
@pytest.mark.timeout(240)
def test_cutover_and_back_under_load_loses_nothing(
    example: ExampleInstallation, node: Node, operator: psycopg.Connection[Any]
) -> None:
    pool = example.start_pool()
    with Web(example) as web:
        assert web.goes_on()
        # 1. Consumers first: nothing goes to a backend without workers.
        example.start_consumer()
        assert wait_until(lambda: "rabbitmq" in alive(operator), within=30)
        # 2. One tenant, then a canary, then all.
        assert set_tenant(operator, "suc0002", {"backend": "rabbitmq"}, by="test")
        assert wait_until(lambda: backends_seen(example, web, "suc0002") == {"rabbitmq"}, within=30)
        assert set_tenant(operator, "suc0002", {"backend": None}, by="test")
        routing.set_for_all(operator, "queue_canary_backend", "rabbitmq")
        routing.set_for_all(operator, "queue_canary_percent", "50")
        assert web.goes_on()
        routing.set_for_all(operator, "queue_backend", "rabbitmq")
        routing.reroute(operator, DEFAULT)
        assert web.goes_on()
        # 3. The old workers leave; their remaining jobs are stamped over to the living.
        pool.terminate()
        assert pool.wait(40) == 0
        assert web.goes_on()
        # 4. The way back, at the worst moment.
        node.kill()
        assert web.goes_on()
        example.start_pool()
        assert wait_until(lambda: "pool" in alive(operator), within=30)
        routing.set_for_all(operator, "queue_backend", None)
        routing.set_for_all(operator, "queue_canary_percent", None)
        routing.reroute(operator, DEFAULT)
        assert web.goes_on()
    for slug, jobs in web.jobs.items():
        tenant = example.tenants[slug]
        assert wait_until(lambda of=tenant: not unfinished(example, of), within=60)  # type: ignore[misc]
        rows = example.rows("SELECT id, status, attempt, crashes FROM background_jobs", tenant=tenant)
        assert {row["id"] for row in rows} == set(jobs)
        assert {(row["status"], row["crashes"]) for row in rows} == {("completed", 0)}
        ends = example.rows(
            "SELECT count(*) AS n FROM background_job_attempts WHERE outcome = 'completed'", tenant=tenant
        )
        assert ends == [{"n": len(jobs)}]
    assert nothing_stranded(operator)


def alive(operator: psycopg.Connection[Any]) -> set[str]:
    return {row["backend"] for row in routing.counts(operator) if row["workers"]}


def unfinished(example: ExampleInstallation, tenant: Any) -> bool:
    return example.rows("SELECT 1 FROM background_jobs WHERE finished_at IS NULL", tenant=tenant) != []


def backends_seen(example: ExampleInstallation, web: Web, slug: str) -> set[str]:
    """Where the newest jobs of a tenant go, read from the tickets that are still there."""
    rows = example.rows(
        "SELECT backend FROM turno.tickets WHERE job_id = ANY (%s)", web.jobs[slug][-3:]
    )  # fmt: skip
    return {row["backend"] for row in rows}


def test_the_plan_is_written_down() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "deploying.md").read_text(encoding="utf-8")
    for command in ("turno backend status", "turno backend set", "turno work --from-broker"):
        assert command in page
