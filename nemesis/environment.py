"""The environment of a run: a private PostgreSQL server with three tenants and their orders."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from cli.servers.embedded_postgres import Cluster
from cli.servers.free_port import free_port
from nemesis.hearing import REFERENCE, REGISTRY
from tenants.northwind.load import BRANCH_SHARES, load_orders
from turno.environment import VISIBLE
from turno.settings import Settings
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.files import packaged
from turno.wiring.shared import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turno.tenancy.identity.connections import TimeoutConnection
    from turno.tenancy.identity.tenant import Tenant

TABLES = packaged(ROOT / "migrations")
KEY = "the nemesis' own master key, 32 or more"
JWT_KEY = "the nemesis' own token key, long enough"
MARK = "NEMESIS_MARK"  # of every worker
FOLDER = "NEMESIS_FOLDER"
SHORT_TIMES = {
    "TURNO_HEARTBEAT_SECONDS": "0.4",
    "TURNO_DEAD_AFTER_SECONDS": "2",
    "TURNO_SHUTDOWN_GRACE_SECONDS": "2",
    "TURNO_MIN_CHILDREN": "1",
    "TURNO_MAX_CHILDREN": "2",
    "TURNO_LOG_LEVEL": "INFO",
    "TURNO_WEB_WORKERS": "2",
    "TURNO_WEB_THREADS": "4",
    "TURNO_LIMITS": "pending_jobs_per_user=10000,commands_per_minute_per_user=0,commands_per_minute_per_tenant=0",
}
# Without fsync a crash of the server loses no commit: the kernel keeps the pages. Only a power cut would lose them.
# 64 pages is the smallest notification queue that PostgreSQL accepts: a fault fills the queue.
SERVER = {"synchronous_commit": "on", "full_page_writes": "on", "max_notify_queue_pages": "64"}
COPY_ORDERS = """
WITH chosen AS (
    SELECT id, %(first)s + row_number() OVER (ORDER BY id) AS new_id
    FROM orders WHERE id < 100000 ORDER BY id LIMIT %(n)s
), made AS (
    INSERT INTO orders (id, customer_id, ordered_on, currency)
    SELECT c.new_id, o.customer_id, o.ordered_on, o.currency FROM chosen c JOIN orders o USING (id)
), lines AS (
    INSERT INTO order_lines (order_id, line_no, product_id, quantity, unit_price, discount)
    SELECT c.new_id, l.line_no, l.product_id, l.quantity, l.unit_price, l.discount
    FROM chosen c JOIN order_lines l ON l.order_id = c.id
)
SELECT new_id FROM chosen
"""


class Environment:
    """A server, an installation with tenants, and the environment of every process of the run."""

    def __init__(self, cluster: Cluster, url: str, folder: Path, tenants: list[Tenant]) -> None:
        self.cluster = cluster
        self.url = url
        self.folder = folder
        self.tenants = tenants
        self.logins = Logins(url, KEY.encode())
        self.broker_url = ""
        self.link_port = 0
        self.web_port = free_port()
        self.logs = folder / "logs"
        self.logs.mkdir(mode=0o700)  # also the run folder of launched workers, who write the same log
        self._orders = count(1_000_000, 1000)

    def variables(self, backend: str, url: str = "") -> dict[str, str]:
        """Return the environment variables of a worker; the folder marks the processes of this run."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TURNO_")}
        return {
            **kept,
            **SHORT_TIMES,
            "DATABASE_URL": url or self.url,
            "TURNO_MASTER_KEY": KEY,
            "QUEUE_BACKEND": backend,
            "TURNO_HANDLERS": REFERENCE,
            "TURNO_RUN_FOLDER": str(self.logs),
            "TURNO_JWT_KEY": JWT_KEY,
            "TURNO_WEB_BIND": f"127.0.0.1:{self.web_port}",
            "RABBITMQ_URL": self.broker_url,
            "TURNO_DOTENV": "read",
            VISIBLE: "yes",
            "PYTHONPATH": str(ROOT),
            MARK: str(self.folder),
        }

    def linked_url(self) -> str:
        """Return the superuser's URL through the link that loses replies, or the direct URL without a link."""
        direct = f"127.0.0.1:{self.cluster.port}"
        return self.url.replace(direct, f"127.0.0.1:{self.link_port}") if self.link_port else self.url

    def web_variables(self, url: str = "") -> dict[str, str]:
        """Return the environment variables of the web, without the mark of workers; launched workers get the mark."""
        kept = {name: value for name, value in self.variables("pool", url).items() if name != MARK}
        return {**kept, FOLDER: str(self.folder)}

    @property
    def workers_log(self) -> Path:
        """Return the log file of all workers."""
        return self.logs / "workers.log"

    def settings(self, backend: str) -> Settings:
        """Return the settings of the run for this process."""
        return Settings.read(self.variables(backend))

    @contextmanager
    def web(self) -> Iterator[TimeoutConnection]:
        """Open a new session as the web role: a fault may have ended the previous session."""
        with service_session(self.logins, self.logins.web, application="nemesis-client") as session:
            yield session

    @contextmanager
    def admin(self, tenant: Tenant | None = None) -> Iterator[psycopg.Connection[Any]]:
        """Open a session as the superuser, in a tenant's schema."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as session:
            if tenant is not None:
                session.execute(sql.SQL("SET search_path = {}, pg_catalog").format(sql.Identifier(tenant.schema)))
            yield session

    def open_jobs(self) -> int:
        """Return the number of due and running jobs."""
        with self.admin() as session:
            return int(session.execute("SELECT count(*) FROM turno.tickets WHERE run_at <= now()").fetchall()[0][0])

    def new_orders(self, tenant: Tenant, n: int) -> list[int]:
        """Insert up to `n` new orders of the tenant, and return their ids."""
        with self.admin(tenant) as session:
            return [order for (order,) in session.execute(COPY_ORDERS, {"first": next(self._orders), "n": n})]


@contextmanager
def open_environment() -> Iterator[Environment]:
    """Start the server, install Turno and add the tenants; at the end, remove everything."""
    folder = Path(tempfile.mkdtemp(prefix="turno-nemesis-"))
    try:
        with Cluster(data=folder / "data", durable=False, tcp=True, settings=SERVER) as cluster:
            with psycopg.connect(cluster.url, autocommit=True) as first:
                first.execute("CREATE DATABASE nemesis")
            url = cluster.url_of("nemesis")
            yield Environment(cluster, url, folder, _install(url))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def spread_backends(environment: Environment) -> None:
    """Give each tenant a different backend, so that every backend has work without a change of backend."""
    backends = ("exec", "pool", "rabbitmq" if environment.broker_url else "exec")
    with environment.admin() as session:
        for tenant, backend in zip(environment.tenants, backends, strict=True):
            session.execute("UPDATE turno.tenants SET backend = %s WHERE id = %s", (backend, tenant.id))


def _install(url: str) -> list[Tenant]:
    logins = Logins(url, KEY.encode())
    with psycopg.connect(url, autocommit=True) as admin:
        install(admin, logins)
        add_company(admin, logins, "northwind", "Northwind Traders")
        Engine.on(admin).announce(of(REGISTRY), None)  # before the first event is published
        tenants = [add_tenant(admin, logins, f"suc000{n}", "northwind", migrations=TABLES) for n in (1, 2, 3)]
        for tenant, share in zip(tenants, BRANCH_SHARES, strict=True):
            with admin.transaction():
                admin.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(tenant.schema)))
                load_orders(admin, share)
    return tenants
