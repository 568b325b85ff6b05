"""The tasks that repair the effects of crashes, and when they run: every few seconds, or all in a run of cron.

Each task is idempotent, safe to overlap and to miss for a day. One process of the installation runs a round.
"""

import logging
import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from threading import Event, Thread
from time import monotonic, sleep
from typing import LiteralString, Self

import psycopg

from turno.capability import Task, enabled, load
from turno.errors import TurnoError
from turno.jobs.handler import Registry
from turno.jobs.job import Claim, JobRef
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.process_name import process_name
from turno.queues.interface import QueueInterface
from turno.settings import Settings
from turno.store.engine import announcements
from turno.store.engine.engine import Engine, TenantTurn
from turno.store.outage import apart, in_short

log = logging.getLogger(__name__)

PERIOD, RARE_PERIOD = timedelta(seconds=10), timedelta(minutes=5)
# Shorter than the period: otherwise a lone process would find its own lease not yet over every second time.
LEASE = 0.9 * PERIOD
# Without a lease for this long: no process maintains. Below LEASE, which bridges gaps.
UNATTENDED = timedelta(seconds=4)
PROLONG = LEASE.total_seconds() / 3
# Kept, under one name, by every process that runs maintenance regularly: cron, and residents.
STEADY = ("steady sweeps", "anybody", timedelta(minutes=15))
URGENT = ("rescued", "promoted", "moved", "offered")
OFTEN = ("counted", "repaired", "expired", "purged")
RARELY = ("pruned", "unserved")

RESCUE_PAUSE = timedelta(seconds=5)
MINUTES_KEPT = timedelta(days=2)  # statistics by minute; totals stay
READ_BATCH = 2000  # batches of outcomes a statement: a tenth of a second
BATCH = 1000  # rows a statement: locks are short
HOUSEKEEPING = timedelta(minutes=5)  # tasks that visit every tenant and seldom find work
REPAIR = TenantTask(name="repair", every=HOUSEKEEPING, statement_timeout="30s")
EXPIRE = TenantTask(name="expire", every=HOUSEKEEPING)
PURGE_JOBS = TenantTask(name="purge jobs", every=HOUSEKEEPING, repeat=True)
# Each refused rescue may wait for a lock, and a locked job must not stop its tenant's others.
RESCUE = TenantTask(name="rescue", repeat=True, tries=3, first=timedelta(seconds=5), longest=timedelta(minutes=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """After how long a task acts."""

    dead_after: timedelta
    reoffer_after: timedelta
    retention: timedelta


class MaintenanceFailed(TurnoError):
    """Tasks failed, for the tenants that the message names; a later run tries them again."""

    @classmethod
    def of(cls, troubles: Mapping[str, str]) -> Self:
        """Return the error of these tasks, tenants or schedules, by name."""
        return cls("; ".join(f"{name}: {problem}" for name, problem in troubles.items()))


@dataclass(kw_only=True, eq=False)
class Maintenance:
    """Runs the tasks one after another, also after a failed task, and counts the changes of each.

    A task returns how many rows it changed, or in a `dry_run` would change: its statements are rolled back, and of a
    task that works in batches one batch counts. `at_each_step` is called between any two statements that may take long,
    as a sign of life. `pending_limit` is how many open jobs a user may have, for submissions by SQL; None: any number.
    """

    engine: Engine
    queue: QueueInterface
    registry: Registry
    terms: Terms
    settings: Settings = field(default_factory=Settings)
    pending_limit: int | None = 20
    dry_run: bool = False
    at_each_step: Callable[[], None] = lambda: None
    _prolong_at: float = math.inf

    def __post_init__(self) -> None:
        self._each_tenant = EachTenant(self.engine, self.settings, dry_run=self.dry_run, at_each_step=self._step)

    # Rounds ------------------------------------------------------------------------------------------

    def run_leased(self, *, steady: bool = True) -> None:
        """Run the tasks that are due and that no other process of the installation runs, but for the urgent ones.

        `steady` is true in a process that runs maintenance regularly, whether there is work or not. A failure is
        logged, because the next round tries again.
        """
        with _logged():
            if steady:
                self.engine.take_lease(*STEADY, renew=True)
        with _logged():
            # Each process, not only the holder of the lease: it may run a release with other handlers.
            self.announce()
        with _logged():
            if self.engine.take_lease("maintenance", process_name(), LEASE):
                self._run_due()

    def run_unattended(self) -> bool:
        """Run the due tasks, but for the urgent ones, if no other process does; return whether it ran."""
        ran = False
        with _logged():
            if self.engine.take_lease("maintenance", process_name(), LEASE, UNATTENDED):
                ran = True
                self.engine.take_lease(*STEADY, renew=True)
                with _logged():
                    self.announce()
                self._run_due()
        return ran

    def rescue_leased(self, after: timedelta = timedelta(0)) -> None:
        """Run the urgent tasks unless another process does, or did until less than `after` ago.

        They rescue lost jobs and hint at waiting jobs.
        """
        with _logged():
            if self.engine.take_lease("sweep", process_name(), LEASE, after):
                self._run(URGENT)

    def run_once(self) -> dict[str, int]:
        """Run all tasks in their order; returns the count of each.

        After a time without maintenance it first gives silent workers time for a heartbeat.
        """
        self._each_tenant.complete = True
        troubles = dict[str, str]()
        if not self.dry_run:
            self.engine.take_lease(*STEADY, renew=True)
            with apart(troubles, "announced"):  # a frozen process may hold locks, and its jobs are to be rescued
                self.announce()
            self._wait_for_heartbeats()
        counts = self._run((*URGENT, *OFTEN, *RARELY), self._of_capabilities())
        if troubles:
            raise MaintenanceFailed.of(troubles)
        return counts

    def close(self) -> None:
        """Send the last hints and end the engine's session."""
        self.queue.close()
        self.engine.close()

    def _run_due(self) -> None:
        self._prolong_at = monotonic() + PROLONG
        self._run(OFTEN, self._of_capabilities())
        if self.engine.take_lease("upkeep", process_name(), RARE_PERIOD):
            self._run(RARELY)

    def _step(self) -> None:
        """Between two transactions: prove that this process lives, and keep the lease of a round that takes long."""
        self.at_each_step()
        if monotonic() > self._prolong_at:
            self._prolong_at = monotonic() + PROLONG
            self.engine.take_lease("maintenance", process_name(), LEASE, renew=True)

    def _run(self, names: Collection[str], more: Mapping[str, Callable[[], int]] | None = None) -> dict[str, int]:
        """Run the tasks of these names, and more tasks; raises MaintenanceFailed at the end if a task failed."""
        in_batches, engine, terms = self._each_tenant.in_batches, self.engine, self.terms
        tasks: dict[str, Callable[[], int]] = {
            "rescued": self.rescue,
            "promoted": partial(in_batches, engine.promote, BATCH),
            # From a backend that no worker serves any more.
            "moved": partial(in_batches, engine.move_unserved, self.queue.name, terms.reoffer_after),
            "offered": self.offer,
            "counted": self.count,
            "repaired": self.repair,
            "expired": lambda: self._for_each(EXPIRE, lambda session, tenant: session.expire(tenant.schema)),
            "purged": lambda: self._for_each(
                PURGE_JOBS, lambda session, tenant: session.purge(tenant.schema, terms.retention, BATCH) or None
            ),
            "pruned": partial(in_batches, engine.prune, MINUTES_KEPT, terms.retention, BATCH),
            "unserved": self.unserved,
        }
        counts, troubles = dict[str, int](), dict[str, str]()
        for name, run in ({name: tasks[name] for name in names} | dict(more or {})).items():
            self._step()
            try:
                with apart(troubles, name):
                    counts[name] = run()
            except MaintenanceFailed as error:
                troubles[name] = str(error)
        if any(counts.values()):
            log.info("maintenance", extra={"dry_run": self.dry_run, **counts})
        if troubles:
            raise MaintenanceFailed.of(troubles)
        return counts

    def _wait_for_heartbeats(self) -> None:
        """Wait while the silence of workers does not count yet, because no process ran maintenance."""
        silence = self.terms.dead_after
        self.engine.take_lease("sweep", process_name(), LEASE)
        while (remaining := self.engine.silence_left(silence)) is not None and remaining > timedelta(0):
            self._step()
            sleep(min(remaining, LEASE / 2).total_seconds())
            self.engine.take_lease("sweep", process_name(), LEASE)

    # Tasks -------------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Register the handlers of this process in the database."""
        self.engine.announce(announcements.of(self.registry), self.pending_limit)

    def rescue(self) -> int:
        """Take back the jobs of workers without a recent heartbeat."""
        silence = self.terms.dead_after
        if self.dry_run:
            return len(self.engine.orphans(silence))
        self.engine.prune_workers(silence)
        lost = "lost: its worker was not heard of any more"
        return _total(rescue_orphans(self.engine, self._each_tenant, cause=lost, retry_in=RESCUE_PAUSE))

    def count(self) -> int:
        """Add outcomes to the statistics; returns the number of outcomes.

        Tables that grew are analyzed first: the planner has no figures of fresh rows.
        """
        self._run_statement("SELECT analyze_grown()")
        self._run_statement("SELECT fold_dead_letter_counts()")
        return self._each_tenant.in_batches(self.engine.count_outcomes, READ_BATCH)

    def repair(self) -> int:
        """Make tickets agree with jobs, tenant by tenant."""
        return self._for_each(REPAIR, lambda session, tenant: session.repair(tenant.schema, self.queue.name))

    def offer(self) -> int:
        """Hint again at jobs that no worker claimed for a while."""
        offered, refused = set[JobRef](), set[str]()
        # A refusal may be the limit of one tenant's workers; another tenant's job may still be accepted.
        for _ in range(self.queue.useful):
            waiting = self.engine.unclaimed(
                backend=self.queue.name,
                queues=self.registry.queues,
                types=self.registry.versions,
                waiting_for=self.terms.reoffer_after,
                limit=self.queue.useful,
                without=refused,
            )
            if self.dry_run:
                return len(waiting)
            for ref in waiting:
                if ref not in offered and not self.queue.offer(ref):
                    refused.add(ref.tenant)  # a worker that ends its job takes the rest
                    break
                offered.add(ref)
            else:
                break
        return len(offered)

    def unserved(self) -> int:
        """Log the waiting jobs that no living worker can run, and the reason."""
        lanes = self.engine.unserved(self.terms.reoffer_after)
        for lane in lanes:
            log.warning(lane.sentence, extra={"alert": "unserved", "type": lane.type, "version": lane.version})
        return sum(lane.waiting for lane in lanes)

    def _of_capabilities(self) -> dict[str, Callable[[], int]]:
        """Return the tasks of the enabled capabilities, by name; their code is loaded when they run."""

        def run(task: Task) -> int:
            return _total(load(task.run)(self.engine, self._each_tenant))

        return {
            task.name: partial(run, task)
            for capability in enabled(self.settings.capabilities)
            for task in capability.tasks
        }

    def _for_each(self, task: TenantTask, work: Callable[[Engine, TenantTurn], int | None]) -> int:
        return _total(self._each_tenant.run(task, work))

    def _run_statement(self, statement: LiteralString) -> None:
        with self.engine.transaction(force_rollback=self.dry_run):
            self.engine.execute(statement)


def rescue_orphans(
    engine: Engine, each_tenant: EachTenant, *, cause: str, retry_in: timedelta, counted: bool | None = None
) -> TaskReport:
    """Rescue each running job without a worker, a transaction for each job; `counted` as in `Engine.rescue`."""
    orphans = defaultdict[int, deque[Claim]](deque)
    for orphan in engine.orphans():
        orphans[orphan.tenant_id].append(orphan)

    def rescue_next(session: Engine, tenant: TenantTurn) -> int | None:
        if not orphans[tenant.tenant_id]:
            return None
        orphan = orphans[tenant.tenant_id].popleft()
        try:
            verdict = session.rescue(
                tenant.schema, orphan.job_id, orphan.token, cause=cause, retry_in=retry_in, counted=counted
            )
        except psycopg.Error as error:
            extra = {"alert": "rescue", **orphan.log_fields}
            log.error("job of a lost worker not taken back: %s", in_short(error), extra=extra)  # noqa: TRY400
            raise
        level = logging.ERROR if verdict == "failed" else logging.WARNING
        log.log(level, "job of a lost worker taken back: now %s", verdict, extra=orphan.log_fields)
        return int(verdict != "gone")

    return each_tenant.run(RESCUE, rescue_next, among=orphans.keys())


@contextmanager
def beside(work: Callable[[], None], every: timedelta) -> Iterator[None]:
    """Call `work` in a thread, at once and again after each `every`, until the block ends."""
    over = Event()

    def repeat() -> None:
        while True:
            try:
                work()
            except Exception:
                log.exception("maintenance failed, the next round tries again")
            if over.wait(every.total_seconds()):
                return

    thread = Thread(target=repeat, name="rescue", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, MaintenanceFailed) as error:
        log.warning("maintenance failed, the next round tries again: %s", error)


def _total(report: TaskReport) -> int:
    """Return how many rows changed; raises MaintenanceFailed if a tenant failed."""
    if report.troubles:
        raise MaintenanceFailed.of(report.troubles)
    return report.done
