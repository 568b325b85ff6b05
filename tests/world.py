"""An installed database with look-alike tenants, and the verbs that tests use on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from app.dispatch.dispatcher import Submission, fingerprint
from app.jobs.handler import JobHandler
from app.settings import Settings
from app.store.enqueue import CANCEL, ENQUEUE, RETRY, NewJob
from cli.wiring import maintenance
from handlers.batch_invoicing import BatchInvoicing
from handlers.services.northwind.load import BRANCH_SHARES, load_orders
from tenants.install import install
from tenants.logins import Logins
from tenants.provision import add_company, add_tenant
from tenants.session import call_as_api, service_session
from tenants.tenant import HandlerLogin, Tenant

ROOT = Path(__file__).resolve().parent.parent
KEY = "the tests' own master key"
LOOK_ALIKE = {"suc0001": range(40), "suc0002": range(40)}
NORTHWIND = {f"suc000{n}": share for n, share in enumerate(BRANCH_SHARES, 1)}


@dataclass
class World:
    """One installation, two tenants of one company that look alike, and short names for what tests do."""

    url: str
    folder: Path
    logins: Logins
    tenants: dict[str, Tenant]
    admin: psycopg.Connection[Any]
    web: psycopg.Connection[Any]
    engine: psycopg.Connection[Any]
    extra: dict[str, str] = field(default_factory=dict)
    odd: bool = False
    backend: str = "exec"
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def one(self) -> Tenant:
        return self.tenants["suc0001"]

    @property
    def other(self) -> Tenant:
        return self.tenants["suc0002"]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that belongs to this world."""
        return {
            **{name: value for name, value in os.environ.items() if name != "TURNO_CRASH_AT"},
            "DATABASE_URL": self.url,
            "MASTER_KEY": KEY,
            "JWT_KEY": "the tests' own token key, long enough",
            "QUEUE_BACKEND": self.backend,
            "EXEC_SLOT_DIR": str(self.folder / "slots"),
            "TURNO_DOTENV": "read",
            "PYTHONPATH": str(ROOT),
            **self.extra,
        }

    @property
    def settings(self) -> Settings:
        return Settings.read(self.environment)

    def enqueue(
        self,
        payload: Mapping[str, Any],
        *,
        tenant: Tenant | None = None,
        handler: type[JobHandler[Any]] = BatchInvoicing,
        **options: Any,
    ) -> UUID:
        """Enqueue as the web does; the hint is left out."""
        row = self.call(ENQUEUE, self.new_job(payload, handler=handler, **options).parameters(), tenant=tenant)
        assert row["verdict"] == "accepted", row
        job_id: UUID = row["job_id"]
        return job_id

    def new_job(
        self, payload: Mapping[str, Any], *, handler: type[JobHandler[Any]] = BatchInvoicing, **options: Any
    ) -> NewJob:
        asked: dict[str, Any] = {"user_id": "ana", "max_attempts": handler.retry.max_attempts} | options
        digest = fingerprint(Submission(handler=handler, payload=dict(payload), user_id="ana"))
        return NewJob(
            type=handler.type,
            version=handler.version,
            queue=handler.queue,
            backend=self.backend,
            payload=dict(payload),
            payload_hash=digest,
            **asked,
        )

    def call(self, statement: Any, parameters: Any, *, tenant: Tenant | None = None) -> dict[str, Any]:
        return call_as_api(self.web, tenant or self.one, statement, parameters)

    def retry(self, job_id: UUID, *, user: str | None = None) -> dict[str, Any]:
        return self.call(RETRY, (job_id, user, self.backend, None))

    def cancel(self, job_id: UUID, *, user: str | None = None) -> str:
        return str(self.call(CANCEL, (job_id, user, "cancelled by a test"))["verdict"])

    def rows(self, query: str, *parameters: Any, tenant: Tenant | None = None) -> list[dict[str, Any]]:
        """Read anything of a tenant's, as the superuser."""
        with self.admin.cursor(row_factory=dict_row) as cursor:
            path = sql.Identifier((tenant or self.one).schema)
            cursor.execute(sql.SQL("SET search_path = {}, pg_catalog").format(path))
            cursor.execute(query, parameters)
            return cursor.fetchall() if cursor.description else []

    def job(self, job_id: UUID, *, tenant: Tenant | None = None) -> dict[str, Any]:
        (row,) = self.rows("SELECT * FROM background_jobs WHERE id = %s", job_id, tenant=tenant)
        return row

    def ticket(self, job_id: UUID) -> dict[str, Any] | None:
        rows = self.rows("SELECT * FROM turno.tickets WHERE job_id = %s", job_id)
        return rows[0] if rows else None

    def handler_login(self, tenant: Tenant | None = None) -> HandlerLogin:
        return HandlerLogin.of(tenant or self.one)

    def order_ids(self, tenant: Tenant | None = None) -> list[int]:
        return [row["id"] for row in self.rows("SELECT id FROM orders ORDER BY id", tenant=tenant)]

    def start_worker(self, job_id: UUID, *, crash_at: str | None = None, **extra: str) -> subprocess.Popen[str]:
        """Start a worker on a job, in a session of its own: the real one, or one that knows odd handlers too."""
        environment = self.environment | extra
        if crash_at:
            environment["TURNO_CRASH_AT"] = crash_at
        script = "tests/odd_worker.py" if self.odd else "cli/background_worker.py"
        return self._start(script, str(job_id), environment=environment)

    def start_pool(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a resident worker: the real one, or one that knows odd handlers too."""
        script = "tests/odd_worker.py" if self.odd else "cli/worker_pool.py"
        first = ["pool"] if self.odd else []
        return self._start(script, *first, *arguments, environment=self.environment | extra)

    def start_consumer(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a consumer of the broker that `extra` names: the real one, or one that knows odd handlers too."""
        script = "tests/odd_worker.py" if self.odd else "cli/rabbitmq_consumer.py"
        first = ["consume"] if self.odd else []
        return self._start(script, *first, *arguments, environment=self.environment | extra)

    def _start(self, script: str, *arguments: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, str(ROOT / script), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.workers.append(worker)
        return worker

    def work(self, job_id: UUID, *, crash_at: str | None = None, **extra: str) -> str:
        """Run the real worker to its end and return what it logged."""
        output, _ = self.start_worker(job_id, crash_at=crash_at, **extra).communicate(timeout=60)
        return output

    def sweep(self, *, dry_run: bool = False, **extra: str) -> dict[str, int]:
        """Run every pass of cron once, in this process; what it offers is run by real workers."""
        environment = self.environment | {"REOFFER_AFTER_SECONDS": "0"} | extra
        passes = maintenance(Settings.read(environment), environment)
        try:
            return passes.run_once(dry_run=dry_run)
        finally:
            passes.close()

    def time_passes(self) -> None:
        """Every waiting job is due, every dead worker silent for long enough."""
        self.rows("UPDATE turno.tickets SET run_at = clock_timestamp() WHERE state = 'scheduled'")
        alive = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        self.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour' WHERE pid <> ALL (%s)", alive)

    def stop_workers(self) -> None:
        """Kill whatever this world's tests have started; children die with their parent."""
        while self.workers:
            with self.workers.pop() as worker:
                worker.kill()

    def forget(self) -> None:
        """Back to no jobs, no invoices, no workers."""
        self.stop_workers()
        for tenant in self.tenants.values():
            self.rows(
                "TRUNCATE background_jobs, background_job_attempts, background_job_progress, background_job_items,"
                " background_job_checkpoints, background_job_events, background_jobs_dead_letter, notifications,"
                " invoices, invoice_lines, invoice_counters",
                tenant=tenant,
            )
        self.rows("TRUNCATE turno.tickets, turno.workers, turno.outcomes")


@contextmanager
def build_world(url: str, folder: Path, shares: Mapping[str, range]) -> Iterator[World]:
    """Install, add a tenant for each share of the Northwind orders, and load them."""
    logins = Logins(url, KEY.encode())
    with psycopg.connect(url, autocommit=True) as admin:
        install(admin, logins)
        add_company(admin, logins, "northwind", "Northwind Traders")
        tenants = {}
        for slug, share in shares.items():
            tenant = tenants[slug] = add_tenant(admin, logins, slug, "northwind")
            with admin.transaction():
                admin.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(tenant.schema)))
                load_orders(admin, share)
        with (
            service_session(logins, logins.web, application="test-web") as web,
            service_session(logins, logins.engine, application="test-engine") as engine,
        ):
            world = World(url, folder, logins, tenants, admin, web, engine)
            yield world
            world.stop_workers()


@pytest.fixture(scope="module")
def module_world(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world of two look-alike tenants for the tests of one module."""
    with build_world(module_database, tmp_path_factory.mktemp("world"), LOOK_ALIKE) as world:
        yield world


@pytest.fixture
def world(module_world: World) -> World:
    """The module's world, with nothing left of the test before."""
    module_world.forget()
    module_world.extra.clear()
    module_world.odd = False
    module_world.backend = "exec"
    return module_world


@pytest.fixture(scope="module")
def module_northwind(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All 830 orders over three tenants, for the tests of one module."""
    with build_world(module_database, tmp_path_factory.mktemp("northwind"), NORTHWIND) as world:
        yield world


@pytest.fixture
def northwind(module_northwind: World) -> World:
    """All 830 orders, none invoiced yet."""
    module_northwind.forget()
    return module_northwind
