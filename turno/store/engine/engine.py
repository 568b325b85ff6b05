"""The database functions that the engine's login may call, as methods: workers, tickets, rescues, leases, tenants."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int2

from turno.capability import installed
from turno.jobs.job import Claim, JobRef
from turno.store import changes
from turno.store.engine.announcements import Announcement
from turno.store.engine.workers import UNSERVED, Unserved
from turno.store.engine_link import EngineLink
from turno.store.statements import qualified
from turno.tenancy.identity.tenant import HandlerLogin

TypeVersion = tuple[str, int]
# The channel of hints that a job may be ready. Any role may send and listen there, so no hint is trusted.
HINTS: LiteralString = "turno_jobs"
RESCUE_LOCK_TIMEOUT = "200ms"


class Orders(NamedTuple):
    """The answer to a heartbeat: jobs to stop, a request of operators (quiet, stop or None), time limits by type."""

    to_stop: list[UUID]
    request: str | None
    timeouts: dict[str, float]


class LoggedLine(NamedTuple):
    """A line of the log of an attempt; `number` is its position there."""

    job_id: UUID
    attempt: int
    number: int
    at: float  # seconds of the epoch
    level: str
    logger: str
    line: str


class TenantTurn(NamedTuple):
    """An active tenant; `failures` counts the consecutive turns in which the task failed for it."""

    tenant_id: int
    slug: str
    schema: str
    failures: int


class Engine(EngineLink):
    """Calls the functions that the engine's login may execute. Times without a unit are the database's."""

    # Workers -----------------------------------------------------------------------------------------

    def start_worker(
        self,
        *,
        backend: str,
        host: str,
        pid: int,
        types: Sequence[TypeVersion] = (),
        queues: Sequence[str] | None = None,
    ) -> UUID:
        """Register a living worker with the types and queues that it can run, and return its id; None: any queue."""
        names, versions = in_step(types)
        of_queues = None if queues is None else list(queues)
        worker: UUID = self.value(
            "SELECT worker_start(%s, %s, %s, %s, %s, %s)", backend, host, pid, of_queues, names, versions
        )
        return worker

    def keep_alive(self, worker: UUID) -> Orders | None:
        """Record a heartbeat; return the orders for the worker, None if the worker was declared dead."""
        return self.row(Orders, "SELECT * FROM worker_alive(%s)", worker)

    def claims_of(self, worker: UUID) -> list[Claim]:
        """Return every claim that the tickets assign to this worker."""
        return self.rows(claim_of, "SELECT * FROM held(%s)", worker)

    def worth_staying(self, worker: UUID, *, idle_for: timedelta, at_most: timedelta) -> bool:
        """Return whether a spawned, idle worker should wait for a due job, a sweep, or a silent worker's jobs.

        Among several idle workers only the last to become idle should stay.
        """
        return bool(self.value("SELECT worth_staying(%s, %s, %s)", worker, idle_for, at_most))

    def stop_worker(self, worker: UUID) -> None:
        """Remove a worker that ends in good order from the list."""
        self.execute("SELECT worker_stop(%s)", (worker,))

    def prune_workers(self, silent_for: timedelta) -> int:
        """Remove workers from the list that were silent for so long while a process swept; return how many."""
        return int(self.value("SELECT prune_workers(%s)", silent_for))

    def silence_left(self, silent_for: timedelta) -> timedelta | None:
        """Return how long the silence of workers does not count yet, None if no worker was silent for so long."""
        left: timedelta | None = self.value("SELECT silence_left(%s)", silent_for)
        return left

    def unserved(self, waiting_for: timedelta) -> list[Unserved]:
        """Return the jobs that have waited for so long and that no living worker can run."""
        return self.rows(Unserved, UNSERVED, waiting_for)

    def announce(
        self, handlers: Sequence[Announcement], pending_limit: int | None, *, replace_newer: bool = False
    ) -> None:
        """Register handlers, as the engine or the provisioner; a newer version stays unless `replace_newer`."""
        facts = Jsonb([asdict(handler) for handler in handlers])
        with self.transaction():
            pause = self.value("SELECT turno.announce(%s, %s, %s)", facts, pending_limit, replace_newer)
            for capability in installed():
                for statement in capability.announcements:
                    self.execute(statement, (facts, pause))

    # Tickets -----------------------------------------------------------------------------------------

    def claim_job(self, worker: UUID, job_id: UUID, *, types: Sequence[TypeVersion]) -> Claim | None:
        """Claim a named job if it may run now, has one of these types and versions, and has no other claim.

        The call waits a moment while another worker counts a limit. None also means that the limit is reached.
        """
        names, versions = in_step(types)
        return self.row(claim_of, "SELECT * FROM claim_job(%s, %s, %s, %s)", worker, job_id, names, versions)

    def unclaim(self, job_id: UUID, token: UUID, wait: timedelta) -> None:
        """Return a claim that no process received; no worker claims the job before `wait` is over."""
        self.execute("SELECT unclaim(%s, %s, %s)", (job_id, token, wait))

    def unclaimed(
        self,
        *,
        backend: str,
        queues: Sequence[str],
        types: Sequence[TypeVersion],
        waiting_for: timedelta,
        limit: int,
        without: Collection[str] = (),
    ) -> list[JobRef]:
        """Return jobs of a backend that have been ready for so long and that a worker of these types could claim.

        `without` lists the slugs of tenants to exclude.
        """
        names, versions = in_step(types)
        return self.rows(
            JobRef,
            "SELECT job_id, slug AS tenant FROM unclaimed(%s, %s, %s, %s, %s, %s, %s)",
            backend,
            list(queues),
            names,
            versions,
            waiting_for,
            limit,
            list(without),
        )

    def move_unserved(self, backend: str, waiting_for: timedelta) -> int:
        """Assign tickets to this backend that were ready for so long without a claim; return how many."""
        return int(self.value("SELECT move_unserved(%s, %s)", backend, waiting_for))

    def promote(self, limit: int) -> int:
        """Make up to `limit` due tickets ready; return how many."""
        return int(self.value("SELECT promoted FROM promote(%s)", limit))

    def wake(self) -> None:
        """Send the resident workers a hint that a job may be ready; never inside a business transaction.

        No hint is sent into a notification queue that is half full: polling finds the job.
        """
        self.execute("SELECT pg_notify(%s, '') WHERE pg_notification_queue_usage() < 0.5", (HINTS,))

    def announce_changes(self, payloads: Sequence[str]) -> None:
        """Send these payloads, which name changed jobs, to all processes."""
        self.execute(changes.ANNOUNCE, (changes.CHANNEL, list(payloads)))

    # Jobs of a tenant --------------------------------------------------------------------------------

    def orphans(self, silent_for: timedelta | None = None) -> list[Claim]:
        """Return the claims of running tickets without a living worker, up to a limit."""
        return self.rows(claim_of, "SELECT * FROM orphans(%s)", silent_for)

    def rescue(
        self,
        schema: str,
        job_id: UUID,
        token: UUID,
        *,
        cause: str,
        retry_in: timedelta,
        counted: bool | None = None,
        child: int | None = None,
    ) -> str:
        """Take a job from a dead attempt; return pending, failed, cancelled, or gone if the job had ended.

        `counted` states whether the job caused the death; None: unknown, see job_rescue. `child` is the process that
        the caller saw end, which makes no outside call any more. The attempt's backends are ended first. The call waits
        up to a second for their end, and RESCUE_LOCK_TIMEOUT for a lock, as the caller serves other tenants, too.
        """
        # A function in FROM is called before the select list; the setting ends with the transaction.
        statement = qualified(
            "SELECT {}.job_rescue(%s, %s, %s, %s, %s, %s) FROM set_config('lock_timeout', %s, true)", schema
        )
        return str(self.value(statement, job_id, token, cause, retry_in, counted, child, RESCUE_LOCK_TIMEOUT))

    def show_running(
        self, schema: str, job_id: UUID, token: UUID, *, worker: str, backend: int, since: timedelta
    ) -> bool:
        """Show a job as running for `since`, with its attempt; False if the job is about to commit."""
        statement = qualified("SELECT {}.jobs_running(%s, %s, %s, %s, %s)", schema)
        return bool(self.value(statement, job_id, token, worker, backend, since))

    def put_logs(self, schema: str, lines: Sequence[LoggedLine], *, keep: int) -> None:
        """Write log lines of one tenant's jobs; the newest `keep` lines of each attempt stay."""
        statement = qualified("SELECT {}.job_logs_put(%s, %s, %s, %s, %s, %s, %s, %s)", schema)
        self.execute(statement, (*map(list, zip(*lines, strict=True)), keep))

    def repair(self, schema: str, backend: str) -> int:
        """Make a tenant's tickets agree with its jobs; return the number of changed rows."""
        return int(self.value(qualified("SELECT {}.job_repair(%s)", schema), backend))

    def expire(self, schema: str) -> int:
        """Cancel expired waiting jobs; return how many."""
        return int(self.value(qualified("SELECT {}.job_expire()", schema)))

    def purge(self, schema: str, older_than: timedelta, limit: int) -> int:
        """Remove up to `limit` jobs that ended so long ago, with their history; return how many."""
        return int(self.value(qualified("SELECT {}.job_purge(%s, %s)", schema), older_than, limit))

    def count_outcomes(self, limit: int) -> int:
        """Add the outcomes of up to `limit` batches to the statistics; return the number of outcomes."""
        return int(self.value("SELECT count_outcomes(%s)", limit))

    def prune(self, minutes: timedelta, retention: timedelta, limit: int) -> int:
        """Remove statistics of minutes, outcomes, limits, types and keys that are no longer used; return how many."""
        return int(self.value("SELECT prune(%s, %s, %s)", minutes, retention, limit))

    # Leases: work of one process of the installation ------------------------------------------------

    def take_lease(
        self, name: str, holder: str, period: timedelta, after: timedelta = timedelta(0), *, renew: bool = False
    ) -> bool:
        """Take a lease for a period; False if a process has it, or had it less than `after` ago.

        With `renew` its holder takes it again before its end; a period of zero ends it for another process.
        """
        return bool(self.value("SELECT lease_take(%s, %s, %s, %s, %s)", name, holder, period, after, renew))

    # Turns of the tenants in a task ------------------------------------------------------------------

    def tenant_turns(self, task: str, every: timedelta, among: Collection[int] | None) -> list[TenantTurn]:
        """Return the tenants of this turn, in order; none if the task's next round is not due.

        `among` limits the turn to these tenant ids. Tenants in back-off are excluded.
        """
        ids = None if among is None else list(among)
        return self.rows(TenantTurn, "SELECT * FROM tenant_turns(%s, %s, %s)", task, every, ids)

    def begin_turn(self, task: str, tenant_id: int) -> None:
        """Store the tenant of the next turn; 0 ends the round."""
        self.execute("SELECT tenant_turn_begin(%s, %s)", (task, tenant_id))

    def end_turn(self, task: str, tenant_id: int, error: str | None, *, first: timedelta, longest: timedelta) -> None:
        """Delay the tenant's next turn after an error by `first`, doubled with each failure up to `longest`."""
        self.execute("SELECT tenant_turn_end(%s, %s, %s, %s, %s)", (task, tenant_id, error, first, longest))


def in_step(types: Sequence[TypeVersion]) -> tuple[list[str], list[Int2]]:
    """Return the types and their versions as two arrays for one statement."""
    return [name for name, _ in types], [Int2(version) for _, version in types]


def claim_of(
    *,
    slug: str,
    schema: str,
    handler_role: str,
    login_epoch: int,
    adopted_schema: str | None,
    parent_schema: str | None,
    **job: Any,
) -> Claim:
    """Return the claim of a row of the type `claimed`."""
    return Claim(login=HandlerLogin(slug, schema, handler_role, login_epoch, adopted_schema, parent_schema), **job)
