"""Everything at once, on this machine: a database, three branches, the web, and 830 orders invoiced over HTTP."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import date
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cli.demo import authorising, branches
from cli.demo.batches import Run, invoice_all
from cli.demo.errors import DemoFailed
from cli.demo.folder import GRACE_SECONDS
from cli.demo.report import Totals
from cli.demo.steps import step
from cli.demo.web import DemoWeb
from cli.servers.embedded_postgres import Cluster
from cli.servers.folder_lock import FolderInUseError, FolderLock
from cli.servers.free_port import free_port
from cli.servers.marked_processes import end_marked
from tax_authority.stub.server import serving
from tenants.company import BRANCHES, COMPANY, USERS
from tenants.northwind.load import BRANCH_SHARES
from turno.administration import Administration, variables
from turno.client import Client

if TYPE_CHECKING:
    from cli.demo.folder import DemoFolder

DATABASE = "turno"
USER = "ana"
# A spreadsheet's format: semicolons, Windows-1252, and three wrong lines.
CUSTOMERS = """\
código;razón social;condición IVA;ciudad
PANAD;Panadería Ñandú;Responsable inscripto;Córdoba
KIOSC;Kiosco «El Túnel»;Monotributo;Rosario
LIBRE;Librería Güemes;Inscripta;Salta
;Sin código;Exento;Jujuy
FERRE;Ferretería 9 de Julio;Exento;Mendoza
PANAD;Panadería Ñandú (bis);Exento;Córdoba
"""
PATIENCE = float(GRACE_SECONDS) + 3


class Demo:
    """Plays the demo once in its folder; `close` ends every process that it started."""

    def __init__(self, folder: DemoFolder, *, port: int | None) -> None:
        self._folder = folder
        self._port = port or free_port()
        self._resources = ExitStack()

    def play(self) -> Totals:
        """Start everything, invoice everything and return the totals; raises DemoFailed."""
        self._take_folder()
        self._start_database()
        self._provision()
        work = self._fill()
        self._start_web()
        run = self._invoice(work)
        totals = self._add_up(run)
        self._authorise()
        return totals

    def stay(self) -> None:
        """Leave the pages open until the demo is interrupted; raises DemoFailed if the web ends before."""
        while self.web.running:
            time.sleep(0.5)
        raise DemoFailed(f"the web process has ended; see {self._folder.web_log}")

    def close(self) -> None:
        """End the web, the workers and the database, in this order; harmless when repeated."""
        self._resources.close()

    def invitation(self) -> str:
        """Create orders to invoice, and return the instructions for the running demo."""
        first = BRANCHES[0]
        orders = branches.restock(self._installation, first)
        next_at = self._schedule(first)
        imported, reported = self._import(first), self._report(first)
        address = f"-H 'X-Schema: {first}' {self.web.url}/api/jobs"
        return "\n".join(
            (
                f"page:   {self.web.url}",
                f"        (press “Enter the demo”: {orders} new orders wait in {first})",
                f"        (a schedule: /schedules?branch={first}, next at {next_at})",
                f"        (an import with three bad lines: /jobs/{imported}?branch={first})",
                f"        (a report to download: /jobs/{reported}?branch={first})",
                f"        (the authorisations of the stub of the tax authority: {self._stub.url})",
                f"API:    {self.web.url}/docs",
                f"token:  {self.token}",
                f"        (user {USER}, all three branches, for a day)",
                f"try:    curl -H 'Authorization: Bearer {self.token}' {address}",
                f"        uv run turno job list --tenant {first}   (in another terminal, in this folder)",
                "Ctrl-C ends everything; the data stays in " + self._folder.path.name,
            )
        )

    def _import(self, branch: str) -> str:
        """Import customers with three wrong lines; return the job's id."""
        client = self._client(branch)
        file_id = client.upload("clientes.csv", CUSTOMERS.encode("cp1252"))
        return client.submit("data_import", {"file_id": file_id, "table": "customers"}).id

    def _report(self, branch: str) -> str:
        """Have the sales of all branches written to a workbook; return the job's id."""
        today = date.today()  # noqa: DTZ011 - the demo's own day
        period = {"since": f"{today.year - 1}-01-01", "until": f"{today.year + 1}-12-31"}
        return self._client(branch).submit("consolidated_report", period).id

    def _schedule(self, branch: str) -> str:
        """Save a schedule that invoices some of the new orders on working days; return when it fires next."""
        orders = [order + branches.FRESH for order in self._orders]
        saved = self._client(branch).save_schedule(
            "nightly-invoices",
            type="batch_invoicing",
            payload={"order_ids": orders},
            cron="0 3 * * 1-5",
            zone="America/Argentina/Buenos_Aires",
        )
        return str(saved["next_runs"][0])

    def _client(self, branch: str) -> Client:
        return Client(self.web.url, tenant=branch, token=self.token)

    def _take_folder(self) -> None:
        self._folder.make()
        lock = FolderLock(self._folder.path / "demo")
        try:
            lock.acquire()
        except FolderInUseError:
            raise DemoFailed(f"another demo runs in {self._folder.path}; stop it with Ctrl-C there") from None
        self._resources.callback(lock.release)
        end_marked(str(self._folder.path), patience=PATIENCE)

    def _start_database(self) -> None:
        given = variables(demo=False)
        self._stub = self._resources.enter_context(serving())
        with step("start PostgreSQL") as reply:
            own = given.get("TURNO_ADMIN_DATABASE_URL") or given.get("DATABASE_URL")
            url = own or self._embedded()
            own_variables = self._folder.variables(given, url, self._port) | authorising.variables(self._stub)
            self._installation = Administration(given | own_variables)
            # Written before any row: these keys open the database at the next start.
            self._folder.write(own_variables)
            with psycopg.connect(url) as admin:
                version = admin.info.parameter_status("server_version")
            location = (
                conninfo_to_dict(url).get("host")
                if own
                else self._folder.postgres.relative_to(self._folder.path.parent)
            )
            reply.done = f"PostgreSQL {version} in {location}"
        self._environment = {name: text for name, text in (given | own_variables).items() if "ADMIN" not in name}
        self._is_embedded = own is None

    def _embedded(self) -> str:
        cluster = Cluster(data=self._folder.postgres, durable=True)
        self._resources.callback(cluster.stop)
        cluster.start()
        with psycopg.connect(cluster.url, autocommit=True) as admin:
            if not admin.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).rowcount:
                admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        return cluster.url_of(DATABASE)

    def _provision(self) -> None:
        with step("provision the branches") as reply:
            branches.provision(self._installation)
            authorising.give_certificates(self._installation)
            reply.done = f"company {COMPANY} with {', '.join(BRANCHES)}"

    def _fill(self) -> list[tuple[str, list[int]]]:
        with step("load the orders") as reply:
            if self._is_embedded:
                # Its workers ended with their demo.
                self._installation.rescue_all("its demo was ended")
            shares = zip(BRANCHES, BRANCH_SHARES, strict=True)
            work = [(slug, branches.fill(self._installation, slug, share)) for slug, share in shares]
            self._orders = work[0][1][1:11]  # some of the first branch's
            reply.done = f"Northwind orders to invoice: {' + '.join(str(len(orders)) for _, orders in work)}"
        return work

    def _start_web(self) -> None:
        self.token = self._installation.development_token(USER, USERS[USER], minutes=24 * 60)
        with step("start the web") as reply:
            environment = self._environment | {"TURNO_DEMO_TOKEN": self.token}
            self.web = DemoWeb(port=self._port, environment=environment, log=self._folder.web_log)
            # Workers end after their launchers, and before their database.
            self._resources.callback(end_marked, str(self._folder.path), patience=PATIENCE)
            self._resources.callback(self.web.stop)
            self.web.start()
            reply.done = f"web at {self.web.url}"

    def _invoice(self, work: list[tuple[str, list[int]]]) -> Run:
        with step("invoice the orders") as reply:
            run = invoice_all([(self._client(slug), orders) for slug, orders in work])
            reply.done = "every order is invoiced"
        return run

    def _authorise(self) -> None:
        with step("have an invoice authorised") as reply:
            reply.done = authorising.authorise_invoice(self._installation, self._client(BRANCHES[0]))

    def _add_up(self, run: Run) -> Totals:
        totals = Totals.of(run, [branches.invoiced(self._installation, slug) for slug in BRANCHES])
        print(totals.reply(), flush=True)
        totals.demand_integrity()
        return totals
