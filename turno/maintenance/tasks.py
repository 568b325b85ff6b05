"""The tasks that repair the effects of crashes: each idempotent, safe to overlap and to miss for a day."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import LiteralString, Self

from turno.capability import Task, enabled
from turno.errors import TurnoError
from turno.jobs.handler import Registry
from turno.jobs.job import JobRef
from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.maintenance.orphans import rescue_orphans
from turno.named import load
from turno.queues.interface import QueueInterface
from turno.settings import Settings
from turno.store.engine import announcements
from turno.store.engine.engine import Engine

log = logging.getLogger(__name__)

RESCUE_PAUSE = timedelta(seconds=5)
MINUTES_KEPT = timedelta(days=2)  # statistics by minute; totals stay
READ_BATCH = 2000  # batches of outcomes a statement: a tenth of a second
BATCH = 1000  # rows a statement: locks are short
HOUSEKEEPING = timedelta(minutes=5)  # tasks that visit every tenant and seldom find work
REPAIR = TenantTask(name="repair", every=HOUSEKEEPING, statement_timeout="30s")
EXPIRE = TenantTask(name="expire", every=HOUSEKEEPING)
PURGE_JOBS = TenantTask(name="purge jobs", every=HOUSEKEEPING, repeat=True)


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


class Tasks:
    """Each task returns how many rows it changed, or in a dry run would change: its statements are rolled back."""

    def __init__(
        self,
        *,
        engine: Engine,
        queue: QueueInterface,
        registry: Registry,
        terms: Terms,
        settings: Settings | None = None,
        pending_limit: int | None = 20,
        dry_run: bool = False,
        at_each_step: Callable[[], None] = lambda: None,
    ) -> None:
        """`at_each_step` is called between any two statements that may take long, as a sign of life.

        `pending_limit` is how many open jobs a user may have, for submissions by SQL; None: any number. In a `dry_run`
        a task that works in batches counts one batch.
        """
        self._dry_run = dry_run
        self._at_each_step = at_each_step
        self._engine = engine
        self._queue = queue
        self._registry = registry
        self._terms = terms
        self._settings = settings or Settings()
        self._pending_limit = pending_limit
        self._each_tenant = EachTenant(engine, self._settings, dry_run=dry_run, at_each_step=self._step)

    def announce(self) -> None:
        """Register the handlers of this process in the database."""
        self._engine.announce(announcements.of(self._registry), self._pending_limit)

    def rescue(self) -> int:
        """Take back the jobs of workers without a recent heartbeat."""
        silence = self._terms.dead_after
        if self._dry_run:
            return len(self._engine.orphans(silence))
        self._engine.prune_workers(silence)
        lost = "lost: its worker was not heard of any more"
        return _total(rescue_orphans(self._engine, self._each_tenant, cause=lost, retry_in=RESCUE_PAUSE))

    def count(self) -> int:
        """Add outcomes to the statistics; returns the number of outcomes.

        Tables that grew are analyzed first: the planner has no figures of fresh rows.
        """
        self._run_one("SELECT analyze_grown()")
        self._run_one("SELECT fold_dead_letter_counts()")
        return self._each_tenant.in_batches(self._engine.count_outcomes, READ_BATCH)

    def promote(self) -> int:
        """Make due tickets ready."""
        return self._each_tenant.in_batches(self._engine.promote, BATCH)

    def of_capabilities(self) -> dict[str, Callable[[], int]]:
        """Return the tasks of the enabled capabilities, by name; their code is loaded when they run."""
        tasks = (task for one in enabled(self._settings.capabilities) for task in one.tasks)
        return {task.name: partial(self._of_capability, task) for task in tasks}

    def _of_capability(self, task: Task) -> int:
        return _total(load(task.run)(self._engine, self._each_tenant))

    def repair(self) -> int:
        """Make tickets agree with jobs, tenant by tenant."""
        backend = self._queue.name
        return _total(self._each_tenant.run(REPAIR, lambda engine, one: engine.repair(one.schema, backend)))

    def expire(self) -> int:
        """Cancel jobs that were not run in time."""
        return _total(self._each_tenant.run(EXPIRE, lambda engine, one: engine.expire(one.schema)))

    def purge(self) -> int:
        """Remove jobs that ended longer ago than the retention."""
        kept = self._terms.retention
        return _total(
            self._each_tenant.run(PURGE_JOBS, lambda engine, one: engine.purge(one.schema, kept, BATCH) or None)
        )

    def prune(self) -> int:
        """Remove old rows of the control schema; returns how many."""
        return self._each_tenant.in_batches(self._engine.prune, MINUTES_KEPT, self._terms.retention, BATCH)

    def move_unserved(self) -> int:
        """Stamp over to this backend the tickets of a backend that no worker serves any more."""
        return self._each_tenant.in_batches(self._engine.move_unserved, self._queue.name, self._terms.reoffer_after)

    def offer(self) -> int:
        """Hint again at jobs that no worker claimed for a while."""
        offered, refused = set[JobRef](), set[str]()
        # A refusal may be the limit of one tenant's workers; another tenant's job may still be accepted.
        for _ in range(self._queue.useful):
            waiting = self._engine.unclaimed(
                backend=self._queue.name,
                queues=self._registry.queues,
                types=self._registry.versions,
                waiting_for=self._terms.reoffer_after,
                limit=self._queue.useful,
                without=refused,
            )
            if self._dry_run:
                return len(waiting)
            for ref in waiting:
                if ref not in offered and not self._queue.offer(ref):
                    refused.add(ref.tenant)  # a worker that ends its job takes the rest
                    break
                offered.add(ref)
            else:
                break
        return len(offered)

    def unserved(self) -> int:
        """Log the waiting jobs that no living worker can run, and the reason."""
        found = self._engine.unserved(self._terms.reoffer_after)
        for one in found:
            log.warning(one.sentence, extra={"alert": "unserved", "type": one.type, "version": one.version})
        return sum(one.waiting for one in found)

    def _step(self) -> None:
        self._at_each_step()

    def _run_one(self, statement: LiteralString) -> None:
        with self._engine.transaction(force_rollback=self._dry_run):
            self._engine.execute(statement)


def _total(report: TaskReport) -> int:
    """Return how many rows changed; raises MaintenanceFailed if a tenant failed."""
    if report.troubles:
        raise MaintenanceFailed.of(report.troubles)
    return report.done
