"""Everything at once, on this machine: a database, three branches, the web, and 830 orders invoiced over HTTP."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cli.demo import branches
from cli.demo.batches import Run, invoice_all
from cli.demo.client import Client
from cli.demo.errors import DemoFailed
from cli.demo.folder import GRACE_SECONDS
from cli.demo.report import Totals
from cli.demo.steps import step
from cli.demo.web import DemoWeb
from handlers.services.northwind.load import BRANCH_SHARES
from turno.commands.development_token import development_token
from turno.environment import read_dotenv, read_project
from turno.servers.embedded_postgres import Cluster
from turno.servers.folder_lock import FolderInUseError, FolderLock
from turno.servers.free_port import free_port
from turno.servers.marked_processes import end_marked
from turno.settings import Settings
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.provisioner import provisioner
from turno.wiring.shared import logins, migrations

if TYPE_CHECKING:
    from cli.demo.folder import DemoFolder
    from turno.tenancy.identity.tenant import Tenant

DATABASE = "turno"
USER = "ana"
PATIENCE = float(GRACE_SECONDS) + 3


class Demo:
    """Plays the demo once in its folder; `close` ends every process that it started."""

    def __init__(self, folder: DemoFolder, *, port: int | None) -> None:
        self._folder = folder
        self._port = port or free_port()
        self._held = ExitStack()

    def play(self) -> Totals:
        """Start everything, invoice everything and return the totals; raises DemoFailed."""
        self._take_folder()
        settings = self._start_database()
        tenants = self._provision(settings)
        work = self._fill(settings, tenants)
        self._start_web(settings)
        run = self._invoice(work)
        self._settings, self._first = settings, tenants[0]
        return self._add_up(settings, tenants, run)

    def stay(self) -> None:
        """Leave the pages open until the demo is interrupted; raises DemoFailed if the web ends before."""
        while self.web.running:
            time.sleep(0.5)
        raise DemoFailed(f"the web has ended by itself; see {self._folder.web_log}")

    def close(self) -> None:
        """End the web, the workers and the database, in this order; harmless when repeated."""
        self._held.close()

    def invitation(self) -> str:
        """Give people something of their own to invoice, and return what they can do with the running demo."""
        with opened(provisioner(self._settings)) as admin:
            orders = branches.restock(admin, self._first)
        here = f"-H 'X-Schema: {branches.SLUGS[0]}' {self.web.url}/api/jobs"
        return "\n".join(
            (
                f"page:   {self.web.url}",
                f"        (press “Enter the demo”: {orders} new orders wait in {self._first.slug})",
                f"API:    {self.web.url}/docs",
                f"token:  {self.token}",
                f"        (user {USER}, all three branches, for a day)",
                f"try:    curl -H 'Authorization: Bearer {self.token}' {here}",
                f"        turno jobs list --tenant {branches.SLUGS[0]}   (in another terminal, in this folder)",
                "Ctrl-C ends everything; the data stays in " + self._folder.path.name,
            )
        )

    def _take_folder(self) -> None:
        self._folder.make()
        lock = FolderLock(self._folder.path / "demo")
        try:
            lock.acquire()
        except FolderInUseError:
            raise DemoFailed(f"another demo runs in {self._folder.path}; stop it with Ctrl-C there") from None
        self._held.callback(lock.release)
        end_marked(str(self._folder.path), patience=PATIENCE)

    def _start_database(self) -> Settings:
        read_dotenv()
        read_project()
        with step("start PostgreSQL") as told:
            own = os.environ.get("ADMIN_DATABASE_URL") or os.environ.get("DATABASE_URL")
            url = own or self._embedded()
            variables = self._folder.variables(url, self._port)
            settings = Settings.read(os.environ | variables)
            # Before anything else writes: the keys in here are what opens the database next time.
            self._folder.write(variables)
            with opened(provisioner(settings)) as admin:
                version = admin.info.parameter_status("server_version")
            place = (
                conninfo_to_dict(url).get("host")
                if own
                else self._folder.postgres.relative_to(self._folder.path.parent)
            )
            told.done = f"PostgreSQL {version} in {place}"
        self._environment = {name: text for name, text in (os.environ | variables).items() if "ADMIN" not in name}
        self._embedded_here = own is None
        return settings

    def _embedded(self) -> str:
        cluster = Cluster(data=self._folder.postgres, durable=True)
        self._held.callback(cluster.stop)
        cluster.start()
        with psycopg.connect(cluster.url, autocommit=True) as admin:
            if not admin.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).rowcount:
                admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        return cluster.url_of(DATABASE)

    def _provision(self, settings: Settings) -> list[Tenant]:
        with step("provision the branches") as told:
            tenants = branches.provision(provisioner(settings), logins(settings), migrations(settings))
            told.done = f"company {branches.COMPANY} with {', '.join(tenant.slug for tenant in tenants)}"
        return tenants

    def _fill(self, settings: Settings, tenants: list[Tenant]) -> list[tuple[Tenant, list[int]]]:
        with step("load the orders") as told:
            if self._embedded_here:
                branches.rescue_all(logins(settings))
            with opened(provisioner(settings)) as admin:
                work = [
                    (tenant, branches.fill(admin, tenant, share))
                    for tenant, share in zip(tenants, BRANCH_SHARES, strict=True)
                ]
            told.done = f"Northwind orders to invoice: {' + '.join(str(len(orders)) for _, orders in work)}"
        return work

    def _start_web(self, settings: Settings) -> None:
        self.token = development_token(settings, user=USER, tenants=branches.SLUGS, minutes=24 * 60)
        with step("start the web") as told:
            environment = self._environment | {"DEMO_TOKEN": self.token}
            self.web = DemoWeb(port=self._port, environment=environment, log=self._folder.web_log)
            # Workers are ended once nobody can launch another, and before their database goes.
            self._held.callback(end_marked, str(self._folder.path), patience=PATIENCE)
            self._held.callback(self.web.stop)
            self.web.start()
            told.done = f"web at {self.web.url}"

    def _invoice(self, work: list[tuple[Tenant, list[int]]]) -> Run:
        with step("invoice the orders") as told:
            run = invoice_all([(Client(self._port, tenant.slug, self.token), orders) for tenant, orders in work])
            told.done = "every order is invoiced"
        return run

    def _add_up(self, settings: Settings, tenants: list[Tenant], run: Run) -> Totals:
        with opened(provisioner(settings)) as admin:
            totals = Totals.of(run, [branches.invoiced(admin, tenant) for tenant in tenants])
        print(totals.told(), flush=True)
        totals.demand_integrity()
        return totals
