"""The passes that mend what crashes leave behind: each idempotent, safe to overlap and to miss for a day."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from app.queues.interface import QueueInterface
from app.store import recovery, tickets
from app.work.engine import EngineLink

log = logging.getLogger(__name__)

RESCUE_PAUSE = timedelta(seconds=5)
OFFERS = 256  # more workers than any host has slots for
BATCH = 1000  # rows a statement, so that no pass holds locks for long


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """After how long a pass acts."""

    dead_after: timedelta
    reoffer_after: timedelta
    retention: timedelta


class Maintenance:
    """Runs every pass once and counts what each did, or with `dry_run` would do."""

    def __init__(self, *, engine: EngineLink, queue: QueueInterface, terms: Terms) -> None:
        self._engine = engine
        self._queue = queue
        self._terms = terms

    def run_once(self, *, dry_run: bool = False) -> dict[str, int]:
        """Run all passes in their order; returns each one's count."""
        passes: dict[str, Callable[..., int]] = {
            "rescued": self.rescue,
            "promoted": self.promote,
            "repaired": self.repair,
            "expired": self.expire,
            "purged": self.purge,
            "offered": self.offer,
        }
        counts = {name: run(dry_run=dry_run) for name, run in passes.items()}
        log.info("maintenance", extra={"dry_run": dry_run, **counts})
        return counts

    def rescue(self, *, dry_run: bool) -> int:
        """Take back the jobs of workers whose heartbeat is missing."""
        self._engine.run(tickets.bury_workers, self._terms.dead_after, dry_run=dry_run)
        orphans = self._engine.run(tickets.orphans, self._terms.dead_after if dry_run else None)
        if dry_run:
            return len(orphans)
        return sum(self._rescue(orphan) for orphan in orphans)

    def _rescue(self, orphan: tickets.Orphan) -> bool:
        verdict = self._engine.run(
            recovery.rescue,
            orphan.schema,
            orphan.job_id,
            orphan.token,
            cause="lost: its worker was not heard of any more",
            retry_in=RESCUE_PAUSE,
        )
        log.warning(
            "job of a lost worker taken back: now %s",
            verdict,
            extra={"tenant": orphan.slug, "job_id": str(orphan.job_id), "attempt": orphan.attempt},
        )
        return verdict != "gone"

    def promote(self, *, dry_run: bool) -> int:
        """Make due tickets ready."""
        return self._until_done(lambda: self._engine.run(tickets.promote, BATCH, dry_run=dry_run), once=dry_run)

    def repair(self, *, dry_run: bool) -> int:
        """Make tickets agree with jobs, tenant by tenant."""
        return self._in_each_tenant(recovery.repair, self._queue.name, dry_run=dry_run)

    def expire(self, *, dry_run: bool) -> int:
        """Cancel jobs that were not run in time."""
        return self._in_each_tenant(recovery.expire, dry_run=dry_run)

    def purge(self, *, dry_run: bool) -> int:
        """Remove what ended longer ago than the retention."""
        self._engine.run(tickets.prune_outcomes, self._terms.retention, dry_run=dry_run)
        return self._until_done(
            lambda: self._in_each_tenant(recovery.purge, self._terms.retention, BATCH, dry_run=dry_run), once=dry_run
        )

    def offer(self, *, dry_run: bool) -> int:
        """Hint again at jobs that nobody took for a while."""
        waiting = self._engine.run(
            tickets.unclaimed, backend=self._queue.name, waiting_for=self._terms.reoffer_after, limit=OFFERS
        )
        if dry_run:
            return len(waiting)
        offered = 0
        for ref in waiting:
            if not self._queue.offer(ref):
                break  # no room: whoever finishes takes the rest
            offered += 1
        return offered

    def close(self) -> None:
        """End the engine's session."""
        self._engine.close()

    def _until_done(self, run_batch: Callable[[], int], *, once: bool) -> int:
        total = done = run_batch()
        while done and not once:
            done = run_batch()
            total += done
        return total

    def _in_each_tenant(self, run: Callable[..., int], *parameters: object, dry_run: bool) -> int:
        return sum(
            self._engine.run(run, schema, *parameters, dry_run=dry_run)
            for _, schema in self._engine.run(tickets.active_tenants)
        )
