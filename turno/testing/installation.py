"""An installed database with look-alike tenants, and the verbs that tests use on it."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row

from turno.capability import installed
from turno.dispatch.dispatcher import CANCEL, ENQUEUE, RETRY, submission
from turno.environment import VISIBLE
from turno.jobs.converter import check_payload
from turno.jobs.handler import JobHandler, named_handlers
from turno.jobs.new_job import NewJob
from turno.queues.exec.launcher import PROGRAM
from turno.settings import Settings
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import call_as_api
from turno.tenancy.identity.tenant import HandlerLogin, Tenant
from turno.tenancy.rights.matrix import Matrix
from turno.tenancy.schema_migrations.files import packaged
from turno.testing.clock import FROZEN, REAL, FrozenClock
from turno.testing.in_process_worker import InProcessWorker
from turno.testing.processes import is_launched, kill, marked
from turno.wiring.shared import ROOT, inline_runner, maintenance

FEW_PAGES = 16 * 8192  # bytes; a larger table would leave enough dead rows to change plans
# Tables of the control schema that tests keep, with the tables that refer to them.
KEPT = ("handlers", "settings", "rate_limits")
KEY = "the tests' own master key, 32 or more"
MAKE_DUE = """
UPDATE background_jobs SET run_at = {}
WHERE status = 'pending' AND run_at < 'infinity'
  AND id IN (SELECT job_id FROM turno.tickets WHERE state = 'scheduled' AND run_at < 'infinity')
RETURNING id, run_at
"""


@dataclass
class Installation:
    """One installation, two look-alike tenants of a company, and short methods for tests.

    `registry` is where the workers of this installation find their handlers, as `package.module:NAME`.
    """

    url: str
    folder: Path
    logins: Logins
    tenants: dict[str, Tenant]
    admin: psycopg.Connection[Any]
    web: psycopg.Connection[Any]
    engine: Engine
    extra: dict[str, str] = field(default_factory=dict)
    registry: str = ""
    backend: str = "exec"
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = FrozenClock(lambda: self.admin)
        # Tables that are empty now are emptied between tests; filled tables belong to the tenants' data.
        schemas = [tenant.schema for tenant in self.tenants.values()]
        # Tables of capabilities without a policy have rows of the installation itself, which are removed.
        of_processes = {"job_types", "leases", "tenant_tasks", "tenant_failures"}
        emptied = of_processes.union(*(_without_policy(capability.control) for capability in installed()))
        self._emptied = tables_without_rows(self.admin, [*schemas, "turno"], kept=KEPT, emptied=emptied)

    @property
    def one(self) -> Tenant:
        """The first tenant, the default of all methods."""
        return self.tenants["suc0001"]

    @property
    def other(self) -> Tenant:
        """The second tenant, with the same rows."""
        return self.tenants["suc0002"]

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that belongs to this installation."""
        return {
            **{name: value for name, value in os.environ.items() if name != "TURNO_CRASH_AT"},
            "DATABASE_URL": self.url,
            "TURNO_MASTER_KEY": KEY,
            "TURNO_JWT_KEY": "the tests' own token key, long enough",
            "QUEUE_BACKEND": self.backend,
            "TURNO_HANDLERS": self.registry,
            "TURNO_RUN_FOLDER": str(self.folder / "slots"),
            "TURNO_DOTENV": "read",
            VISIBLE: "yes",
            "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(ROOT), str(Path.cwd())))),
            **self.extra,
        }

    @property
    def settings(self) -> Settings:
        """The settings of a process that belongs to this installation."""
        return Settings.read(self.environment)

    # Real processes, started as in production --------------------------------------------------------

    def start_worker(self, job_id: UUID, *, crash_at: str | None = None, **extra: str) -> subprocess.Popen[str]:
        """Start a worker on a job, in a new process session."""
        crash = {"TURNO_CRASH_AT": crash_at} if crash_at else {}
        return self._spawn([sys.executable, "-m", PROGRAM, str(job_id)], self.environment | extra | crash)

    def start_pool(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a resident worker."""
        return self.start("work", *arguments, **extra)

    def start_consumer(self, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a consumer of the broker that `extra` names, as with `start_pool`."""
        return self.start("work", "--from-broker", *arguments, **extra)

    def start(self, *command: str, **extra: str) -> subprocess.Popen[str]:
        """Start a command of `turno`."""
        return self._spawn([sys.executable, "-m", "turno.commands.main", *command], self.environment | extra)

    def _spawn(self, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            command,
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
        """Run the real worker to its end and return its log."""
        output, _ = self.start_worker(job_id, crash_at=crash_at, **extra).communicate(timeout=60)
        return output

    def stop_workers(self) -> None:
        """Kill the processes of this installation's tests, launched ones included; children die with their parent."""
        while self.workers:
            with self.workers.pop() as worker:
                worker.kill()
        kill(*filter(is_launched, marked("TURNO_RUN_FOLDER", self.environment["TURNO_RUN_FOLDER"])))

    # Inline: a handler's logic alone -------------------------------------------------------------

    def run(self, handler: type[JobHandler[Any]], payload: Mapping[str, Any], *, tenant: Tenant | None = None) -> Any:
        """Run a handler as a request would, in one transaction, without a job; returns its result.

        The payload is checked as by POST; errors of the handler pass through, and its work is rolled back.
        """
        runner = inline_runner(self.settings, lambda: self.admin.info.server_version)
        return runner.run(tenant or self.one, handler, check_payload(handler, payload), "ana")

    # Jobs in the test's own process ----------------------------------------------------------------

    @property
    def in_process(self) -> InProcessWorker:
        """A worker within this process, with this installation's handlers."""
        return InProcessWorker(self, named_handlers(self.registry))

    def attempt(self, job_id: UUID) -> dict[str, Any]:
        """Claim a job, run one attempt in this process and return the job after it."""
        folder = self.in_process
        claim = folder.claim(job_id)
        assert claim is not None, f"job {job_id} may not run now: {self.ticket(job_id)}"
        folder.execute(claim)
        return self.find_job(job_id)

    def drain(self, *, scheduled: bool = False) -> Counter[str]:
        """Run jobs in this process until none is due; count how each attempt ended.

        With `scheduled`, jobs that wait for a later time, such as a retry, are due at once, again and again until every
        job has ended or waits for a person.
        """
        ended = self.in_process.drain()
        while scheduled and self.make_due():
            ended += self.in_process.drain()
        return ended

    def make_due(self) -> int:
        """Make each waiting job due now, except jobs in review; returns the number of changed jobs."""
        now = sql.SQL(FROZEN if self.clock.frozen else REAL)
        moved = 0
        for tenant in self.tenants.values():
            jobs = self.rows(sql.SQL(MAKE_DUE).format(now), tenant=tenant)
            for job in jobs:
                self.rows("UPDATE turno.tickets SET run_at = %s WHERE job_id = %s", job["run_at"], job["id"])
            moved += len(jobs)
        return moved

    def enqueued(
        self, handler: type[JobHandler[Any]], *, tenant: Tenant | None = None, **payload: Any
    ) -> list[dict[str, Any]]:
        """Return the handler's jobs with these fields in the payload, oldest first."""
        return self.rows(
            "SELECT * FROM background_jobs WHERE type = %s AND payload @> %s::jsonb ORDER BY id",
            handler.type,
            json.dumps(payload),
            tenant=tenant,
        )

    # Commands, as the web gives them -----------------------------------------------------------------

    def enqueue(
        self,
        payload: Mapping[str, Any],
        *,
        handler: type[JobHandler[Any]],
        tenant: Tenant | None = None,
        **options: Any,
    ) -> UUID:
        """Enqueue as the web does; the hint is left out."""
        row = self.call(ENQUEUE, submission(self.new_job(payload, handler=handler, **options)), tenant=tenant)
        assert row["verdict"] == "accepted", row
        job_id: UUID = row["job_id"]
        return job_id

    def new_job(self, payload: Mapping[str, Any], *, handler: type[JobHandler[Any]], **options: Any) -> NewJob:
        """Return a job of user ana's, for this installation's backend."""
        return NewJob.of(handler, dict(payload), **{"user_id": "ana", "backend": self.backend} | options)

    def call(self, statement: Any, parameters: Any, *, tenant: Tenant | None = None) -> dict[str, Any]:
        """Run one of the web's fixed statements as a tenant's API role."""
        return call_as_api(self.web, tenant or self.one, statement, parameters)

    def retry(self, job_id: UUID, *, user: str | None = None, pending_limit: int | None = None) -> dict[str, Any]:
        """Make a new job that continues an ended one; returns its id and the verdict."""
        return self.call(RETRY, (job_id, user, self.backend, None, pending_limit, None, False))

    def cancel(self, job_id: UUID, *, user: str | None = None) -> str:
        """Cancel a waiting job, or ask a running one to stop; returns the verdict."""
        return str(self.call(CANCEL, (job_id, user, "cancelled by a test"))["verdict"])

    def rows(self, query: Any, *parameters: Any, tenant: Tenant | None = None) -> list[dict[str, Any]]:
        """Read anything of a tenant's, as the superuser."""
        with self.admin.cursor(row_factory=dict_row) as cursor:
            path = sql.Identifier((tenant or self.one).schema)
            cursor.execute(sql.SQL("SET search_path = {}, pg_catalog").format(path))
            cursor.execute(self.sql(query, tenant=tenant) if isinstance(query, str) else query, parameters)
            return cursor.fetchall() if cursor.description is not None else []

    def sql(self, text: str, *, tenant: Tenant | None = None) -> str:
        """Return a statement that calls a tenant's functions by the names in the files, with the tenant's own names."""
        return packaged().tenant.in_schema(text, (tenant or self.one).schema)

    def job(self, job_id: UUID, *, tenant: Tenant | None = None) -> dict[str, Any]:
        """Return a job's row."""
        (row,) = self.rows("SELECT * FROM background_jobs WHERE id = %s", job_id, tenant=tenant)
        return row

    def find_job(self, job_id: UUID) -> dict[str, Any]:
        """Return a job of whichever tenant."""
        query = "SELECT * FROM background_jobs WHERE id = %s"
        (row,) = [row for tenant in self.tenants.values() for row in self.rows(query, job_id, tenant=tenant)]
        return row

    def ticket(self, job_id: UUID) -> dict[str, Any] | None:
        """Return a job's ticket, None if it has none."""
        rows = self.rows("SELECT * FROM turno.tickets WHERE job_id = %s", job_id)
        return rows[0] if rows else None

    def handler_login(self, tenant: Tenant | None = None) -> HandlerLogin:
        """Return how the tenant's handlers log in."""
        return HandlerLogin.of(tenant or self.one)

    def sweep(self, *, dry_run: bool = False, reoffer_after: float = 0, **extra: str) -> dict[str, int]:
        """Run each maintenance task once, in this process; real workers run the offered jobs."""
        environment = self.environment | extra
        self.swept_until_now()
        passes = maintenance(Settings.read(environment), environment, dry_run=dry_run, reoffer_after=reoffer_after)
        try:
            return passes.run_once()
        finally:
            passes.close()

    def swept_until_now(self) -> None:
        """Record maintenance since yesterday: the silence of a dead worker counts at once."""
        now = self.clock.now
        self.rows(
            "INSERT INTO turno.leases (name, holder, until, since) VALUES ('sweep', 'the kit', %s, %s)"
            " ON CONFLICT (name) DO UPDATE SET until = excluded.until, since = excluded.since",
            now, now - timedelta(days=1),
        )  # fmt: skip

    def time_passes(self) -> None:
        """Every waiting job is due, every dead worker silent for long enough."""
        self.make_due()
        alive = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        self.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour' WHERE pid <> ALL (%s)", alive)

    def reset(self) -> None:
        """Delete jobs, workers, and all rows of tables that were empty when the installation was made."""
        self.stop_workers()
        self.clock.thaw()
        empty(self.admin, self._emptied)
        self.swept_until_now()

    def renew(self, registry: str) -> None:
        """Remove the data of a test, and its changes of the environment, the handlers and the backend."""
        self.reset()
        self.extra.clear()
        self.registry, self.backend = registry, "exec"


def _without_policy(matrix: Matrix) -> set[str]:
    return matrix.relations.keys() - {table for table, _ in matrix.policies}


def tables_without_rows(
    admin: psycopg.Connection[Any], schemas: Sequence[str], *, kept: Sequence[str], emptied: Collection[str]
) -> list[sql.Identifier]:
    """Return the tables of these schemas that are empty now or named in `emptied`.

    Tables in `kept` and tables with a reference to them are left out.
    """
    listed = """
        SELECT c.relnamespace::regnamespace::text, c.relname FROM pg_class c
        WHERE c.relkind = 'r' AND c.relnamespace::regnamespace::text = ANY (%(schemas)s) AND c.relname <> ALL (%(kept)s)
          AND NOT EXISTS (SELECT FROM pg_constraint r JOIN pg_class k ON k.oid = r.confrelid
                          WHERE r.conrelid = c.oid AND r.contype = 'f' AND k.relname = ANY (%(kept)s))
    """
    parameters = {"schemas": list(schemas), "kept": list(kept)}
    tables = [(sql.Identifier(*names), names[1] in emptied) for names in admin.execute(listed, parameters)]
    first_row = sql.SQL("SELECT FROM {} LIMIT 1")
    return [table for table, named in tables if named or not admin.execute(first_row.format(table)).rowcount]


def empty(admin: psycopg.Connection[Any], tables: Sequence[sql.Identifier]) -> None:
    """Remove the rows of these tables, by TRUNCATE only for many rows; raises if another session uses them."""
    # A worker of another fixture may still be ending, with its locks.
    for _ in range(5):
        with suppress(errors.DeadlockDetected), admin.transaction():
            names = [table.as_string(admin) for table in tables]
            sizes = admin.execute("SELECT pg_relation_size(n::regclass) FROM unnest(%s::text[]) AS n", [names])
            used = [(table, size) for table, (size,) in zip(tables, sizes, strict=True) if size]
            if any(size > FEW_PAGES for _, size in used):
                admin.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables)))
            elif used:
                # Twenty times as fast as TRUNCATE, which makes new files for the tables and all their indexes.
                deletes = (sql.SQL("DELETE FROM {}").format(table) for table, _ in used)
                admin.execute("SET LOCAL session_replication_role = replica")
                admin.execute(sql.SQL("; ").join(deletes))
            return
    raise AssertionError("a session still uses the tables of a test that ended: wait for its end in that test")
