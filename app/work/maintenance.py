"""The passes that mend what crashes leave behind: each idempotent, safe to overlap and to miss for a day."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import psycopg

from app.errors import TurnoError
from app.queues.interface import QueueInterface
from app.store import recovery, tickets
from app.work.engine import EngineLink

log = logging.getLogger(__name__)

RESCUE_PAUSE = timedelta(seconds=5)
NONE = timedelta(0)
SWEEP, UPKEEP = timedelta(seconds=10), timedelta(minutes=5)
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

    def __init__(
        self,
        *,
        engine: EngineLink,
        queue: QueueInterface,
        terms: Terms,
        at_each_step: Callable[[], None] = lambda: None,
    ) -> None:
        """`at_each_step` is called between any two statements that may take long: the passes are getting on."""
        self._at_each_step = at_each_step
        self._engine = engine
        self._queue = queue
        self._terms = terms

    def run_leased(self, holder: str) -> None:
        """Run the passes whose period has come and that no other process of the installation runs."""
        # After an outage all workers were silent: what nobody could hear is no sign of anybody's death.
        unheard = self._engine.run(tickets.lease_gap, "sweep")
        # Shorter than the period, or whoever is alone would find it not quite over each second time.
        if self._engine.run(tickets.take_lease, "sweep", holder, 0.9 * SWEEP):
            often: dict[str, Callable[..., int]] = {
                "rescued": lambda dry_run: self.rescue(dry_run=dry_run, unheard=unheard),
                "promoted": self.promote,
                "restamped": self.restamp,
                "offered": self.offer,
            }
            self._run(often, dry_run=False)
        # These ask every tenant, so they are rare: what they mend is rare too.
        if self._engine.run(tickets.take_lease, "upkeep", holder, UPKEEP):
            self._run({"repaired": self.repair, "expired": self.expire, "purged": self.purge}, dry_run=False)

    def run_leased_or_log(self, holder: str) -> None:
        """Run what is due; a failure is logged, because the next round tries again."""
        try:
            self.run_leased(holder)
        except (psycopg.Error, PassesFailed) as error:
            log.warning("maintenance failed, the next round tries again: %s", error)

    def run_once(self, *, dry_run: bool = False) -> dict[str, int]:
        """Run all passes in their order; returns each one's count."""
        passes: dict[str, Callable[..., int]] = {
            "rescued": self.rescue,
            "promoted": self.promote,
            "repaired": self.repair,
            "expired": self.expire,
            "purged": self.purge,
            "restamped": self.restamp,
            "offered": self.offer,
        }
        return self._run(passes, dry_run=dry_run)

    def _run(self, passes: dict[str, Callable[..., int]], *, dry_run: bool) -> dict[str, int]:
        """Run each pass, whatever the others do; raises PassesFailed at the end if one could not be done."""
        counts, failed = {}, []
        for name, run in passes.items():
            self._at_each_step()
            try:
                counts[name] = run(dry_run=dry_run)
            except (psycopg.Error, PassesFailed) as error:
                if _away(error):
                    raise
                failed.append(f"{name}: {str(error).strip()}")
        log.info("maintenance", extra={"dry_run": dry_run, **counts})
        if failed:
            raise PassesFailed("; ".join(failed))
        return counts

    def rescue(self, *, dry_run: bool, unheard: timedelta = NONE) -> int:
        """Take back the jobs of workers whose heartbeat is missing, apart from when nobody could be heard."""
        silence = self._terms.dead_after + unheard
        self._engine.run(tickets.bury_workers, silence, dry_run=dry_run)
        orphans = self._engine.run(tickets.orphans, silence if dry_run else None)
        if dry_run:
            return len(orphans)
        return sum(self._rescue(orphan) for orphan in orphans)

    def _rescue(self, orphan: tickets.Orphan) -> bool:
        self._at_each_step()
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

    def restamp(self, *, dry_run: bool) -> int:
        """Give to this backend what waits for one that nobody serves any more."""
        return self._until_done(
            lambda: self._engine.run(tickets.restamp, self._queue.name, self._terms.reoffer_after, dry_run=dry_run),
            once=dry_run,
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
        """Send the last hints and end the engine's session."""
        self._queue.close()
        self._engine.close()

    def _until_done(self, run_batch: Callable[[], int], *, once: bool) -> int:
        total = done = run_batch()
        while done and not once:
            self._at_each_step()
            done = run_batch()
            total += done
        return total

    def _in_each_tenant(self, run: Callable[..., int], *parameters: object, dry_run: bool) -> int:
        total, failed = 0, []
        for slug, schema in self._engine.run(tickets.active_tenants):
            self._at_each_step()
            try:
                total += self._engine.run(run, schema, *parameters, dry_run=dry_run)
            except psycopg.Error as error:
                if _away(error):
                    raise
                # One tenant in trouble must not keep the others from being mended.
                failed.append(f"{slug}: {str(error).strip()}")
        if failed:
            raise PassesFailed("; ".join(failed))
        return total


def _away(error: Exception) -> bool:
    # A refusal carries the server's code; without one, it was the server that could not be asked.
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


class PassesFailed(TurnoError):
    """What could be mended was; the rest is named, and the next run tries it again."""
