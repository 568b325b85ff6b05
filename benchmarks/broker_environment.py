"""An environment with a broker beside it, workers of both backends, and a web's way to submit."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchmarks import bare_jobs
from benchmarks.environment import ROOT, open_environment
from cli.servers.private_rabbitmq import Node
from turno.dispatch.dispatcher import BackendChoice, Dispatcher
from turno.jobs.handler import Registry
from turno.jobs.job import Priority
from turno.jobs.new_job import NewJob
from turno.maintenance.tasks import Maintenance, Terms
from turno.queues.exec.launcher import ExecQueue
from turno.queues.exec.slots import SlotFolder
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until
from turno.wiring.shared import engine_of, queue_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.environment import BenchEnvironment
    from turno.jobs.handler import JobHandler
    from turno.queues.interface import QueueInterface
    from turno.tenancy.identity.tenant import Tenant


SCRIPTS = {"pool": "worker_pool.py", "rabbitmq": "rabbitmq_consumer.py"}


@dataclass
class BrokerEnvironment:
    """The installation of a benchmark of the broker."""

    bench: BenchEnvironment
    node: Node
    tenants: list[Tenant]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, backend: str, **extra: str) -> subprocess.Popen[bytes]:
        """Start a resident worker and wait until it has entered itself into the list."""
        before = self.alive()
        environment = bare_jobs.variables(self.bench.environment(**extra), self.node.url)
        worker = subprocess.Popen(
            [sys.executable, str(ROOT / "cli" / SCRIPTS[backend])], env=environment, cwd=ROOT, stdin=subprocess.DEVNULL
        )
        self.workers.append(worker)
        wait_until(lambda: self.alive() > before, within=120)
        return worker

    def alive(self) -> int:
        """Return how many workers are on the list."""
        return self.count("turno.workers")

    def stop(self) -> None:
        """Have every worker leave in good order."""
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.wait(60)
        self.workers.clear()

    def count(self, table: str, tenant: Tenant | None = None, condition: str = "true") -> int:
        """Count rows, in the control schema or in a tenant's."""
        session = self.bench.in_schema(tenant) if tenant else self.bench.admin
        query = f"SELECT count(*) FROM {table} WHERE {condition}"  # noqa: S608 - names of ours
        (number,) = session.execute(query.encode()).fetchone() or (0,)
        return int(number)

    def drained(self, within: float) -> bool:
        """Wait until no job is open."""
        query = "SELECT FROM turno.tickets LIMIT 1"
        return wait_until(lambda: not self.bench.admin.execute(query).rowcount, within=within, every=0.01)

    def enqueue(self, handler: type[JobHandler[Any]], count: int, *, priority: Priority = Priority.NORMAL) -> None:
        """Put jobs of the first tenant down at once, for the broker's backend and without a hint."""
        new = NewJob.of(handler, {}, backend="rabbitmq", user_id="ana", priority=priority)
        self.bench.enqueue_many(new, self.tenants[0], count)

    def exec_queue(self) -> ExecQueue:
        """Return the queue that launches a worker for each of these jobs, at most two at a time."""
        return ExecQueue(
            root=ROOT,
            slots=SlotFolder(self.bench.folder / "slots", 2),
            log_file=self.bench.folder / "exec.log",
            environment=bare_jobs.variables(self.bench.environment(), self.node.url),
        )

    @contextmanager
    def cron(self, *, every: float) -> Iterator[None]:
        """Run maintenance as cron does, so that exec receives the jobs whose hints were lost."""
        settings = self.bench.settings()
        terms = Terms(
            dead_after=timedelta(seconds=settings.dead_after_seconds),
            reoffer_after=timedelta(seconds=every),
            retention=timedelta(days=settings.retention_days),
        )
        passes = Maintenance(
            engine=engine_of(settings), queue=self.exec_queue(), registry=Registry.of(bare_jobs.HANDLERS), terms=terms
        )
        over = Event()

        def run() -> None:
            while not over.wait(every):
                passes.run_once()

        thread = Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            passes.close()

    @contextmanager
    def web(self, default: str, *, ttl: float = 1.0) -> Iterator[Dispatcher]:
        """Open a dispatcher as in a web process, with a separate session."""
        queues: list[QueueInterface] = []

        def opened(name: str) -> QueueInterface:
            queues.append(self.exec_queue() if name == "exec" else queue_named(name, self.bench.settings()))
            return queues[-1]

        with service_session(self.bench.logins, self.bench.logins.web, application="bench-web") as session:

            @contextmanager
            def lend() -> Iterator[Any]:
                yield session

            choice = BackendChoice(connection=lend, default=default, open_queue=opened, ttl=ttl)
            yield Dispatcher(connection=lend, queue=choice.queue_of, pending_limit=1_000_000)
        for queue in queues:
            queue.close()


@contextmanager
def open_broker_environment(tenants: int = 1) -> Iterator[BrokerEnvironment]:
    """Start PostgreSQL and RabbitMQ, with some tenants; all of it is gone afterwards."""
    with open_environment() as bench, Node(folder=bench.folder / "broker") as node:
        result = BrokerEnvironment(bench, node, [bench.tenant(f"suc{number:04d}") for number in range(tenants)])
        try:
            yield result
        finally:
            for worker in result.workers:
                worker.kill()
                worker.wait()
