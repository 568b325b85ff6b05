"""The passes that repair what crashes leave behind: each idempotent, safe to overlap and to miss for a day."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Self

import psycopg

from turno.errors import TurnoError
from turno.jobs.job import JobRef
from turno.jobs.registry import Registry
from turno.maintenance.due_schedules import fire_due
from turno.maintenance.file_sweep import sweep_files
from turno.queues.interface import QueueInterface
from turno.store.engine import announcements, events, outcomes, recovery, tickets, workers
from turno.store.engine_link import EngineLink, undone
from turno.store.outage import apart, in_short, unreachable

log = logging.getLogger(__name__)

RESCUE_PAUSE = timedelta(seconds=5)
MOST_REFUSED = 3  # of one tenant's jobs in one pass: each may wait until its lock times out
MINUTES_KEPT = timedelta(days=2)  # of the statistics; those of all time stay
COUNT_BATCH = 20_000  # outcomes a statement: a tenth of a second
FILE_BATCH = 10  # files a statement, of up to 64 MB each
BATCH = 1000  # rows a statement, so that no pass holds locks for long


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """After how long a pass acts, and where files are kept."""

    dead_after: timedelta
    reoffer_after: timedelta
    retention: timedelta
    files_folder: str = ""


class PassesFailed(TurnoError):
    """Some passes, tenants or jobs failed, which the message names; the next run tries them again."""

    @classmethod
    def of(cls, troubles: Mapping[str, str]) -> Self:
        """Return one that tells whose trouble is which."""
        return cls("; ".join(f"{whose}: {said}" for whose, said in troubles.items()))


class Passes:
    """Each pass returns how many rows it changed, or in a dry run would change: its statements are rolled back."""

    def __init__(
        self,
        *,
        engine: EngineLink,
        queue: QueueInterface,
        registry: Registry,
        terms: Terms,
        pending_limit: int | None = 20,
        dry_run: bool = False,
        at_each_step: Callable[[], None] = lambda: None,
    ) -> None:
        """`at_each_step` is called between any two statements that may take long, as a sign of life.

        `pending_limit` is how many open jobs a user may have, or None for any number, for whoever enqueues by SQL. A
        pass that works in batches counts one in a `dry_run`.
        """
        self._dry_run = dry_run
        self._at_each_step = at_each_step
        self._engine = engine
        self._queue = queue
        self._registry = registry
        self._terms = terms
        self._pending_limit = pending_limit

    def announce(self) -> None:
        """Tell the database what the handlers here are, for whoever enqueues by SQL."""
        self._engine.run(announcements.announce, announcements.of(self._registry), self._pending_limit)

    def rescue(self) -> int:
        """Take back the jobs of workers whose heartbeat is missing; raises PassesFailed if some could not be.

        Each is rescued by itself: one that is refused does not stop the others.
        """
        silence = self._terms.dead_after
        if self._dry_run:
            return len(self._engine.run(tickets.orphans, silence))
        self._engine.run(tickets.prune_workers, silence)
        rescued, refused = 0, Counter[str]()
        for orphan in self._engine.run(tickets.orphans):
            self._at_each_step()
            if refused[orphan.slug] >= MOST_REFUSED:
                continue
            try:
                rescued += self._rescue(orphan)
            except psycopg.Error as error:
                if unreachable(error):
                    raise
                refused[orphan.slug] += 1
                log.error(  # noqa: TRY400 - where it was refused is known
                    "job of a lost worker not taken back, the next sweep tries again: %s",
                    in_short(error),
                    extra={"alert": "rescue", **orphan.log_fields},
                )
        if refused:
            raise PassesFailed(
                f"{refused.total()} jobs of lost workers could not be taken back, of {', '.join(sorted(refused))};"
                " the log names each"
            )
        return rescued

    def _rescue(self, orphan: tickets.Orphan) -> bool:
        verdict = self._engine.run(
            recovery.rescue,
            orphan.schema,
            orphan.job_id,
            orphan.token,
            cause="lost: its worker was not heard of any more",
            retry_in=RESCUE_PAUSE,
        )
        level = logging.ERROR if verdict == "failed" else logging.WARNING
        log.log(level, "job of a lost worker taken back: now %s", verdict, extra=orphan.log_fields)
        return verdict != "gone"

    def count(self, *, from_lowest: bool = False) -> int:
        """Add what ended to the statistics, which are right without that, but dear to read."""
        self._run_one(outcomes.fold_dead_letters)
        return self._until_done(lambda: self._run_one(outcomes.count, COUNT_BATCH, from_lowest))

    def promote(self) -> int:
        """Make due tickets ready."""
        return self._until_done(lambda: self._run_one(tickets.promote, BATCH))

    def schedule(self) -> int:
        """Make the jobs of schedules whose moments come soon, or were missed; returns how many jobs.

        Each schedule is a transaction of its own: one that is refused does not stop the others.
        """
        made, troubles = fire_due(self._engine, self._run_one, self._at_each_step)
        if troubles:
            raise PassesFailed.of(troubles)
        return made

    def repair(self) -> int:
        """Make tickets agree with jobs, tenant by tenant."""
        return self._in_each_tenant(recovery.repair, self._queue.name)

    def deliver(self) -> int:
        """Give new subscribers the events that were published before they were there."""
        delivered = 0
        for subscription in self._engine.run(events.behind):
            deliver = partial(self._in_each_tenant, events.deliver, subscription, self._queue.name, BATCH)
            delivered += self._until_done(deliver)
            self._run_one(events.caught_up, subscription)
        return delivered

    def expire(self) -> int:
        """Cancel jobs that were not run in time."""
        return self._in_each_tenant(recovery.expire)

    def purge(self) -> int:
        """Remove what ended longer ago than the retention, uploads that no job has read, and files without a row."""
        self.count(from_lowest=True)
        self._run_one(outcomes.prune, MINUTES_KEPT, self._terms.retention)
        self._until_done(lambda: self._run_one(recovery.prune_rate_limits, BATCH))
        files = self._until_done(lambda: self._in_each_tenant(recovery.purge_files, FILE_BATCH))
        self._until_done(lambda: self._in_each_tenant(events.purge, self._terms.retention, BATCH))
        if self._terms.files_folder:
            files += sweep_files(self._engine, self._terms.files_folder, dry_run=self._dry_run)
        return files + self._until_done(lambda: self._in_each_tenant(recovery.purge, self._terms.retention, BATCH))

    def move_unserved(self) -> int:
        """Stamp over to this backend the tickets of a backend that no worker serves any more."""
        return self._until_done(
            lambda: self._run_one(tickets.move_unserved, self._queue.name, self._terms.reoffer_after)
        )

    def offer(self) -> int:
        """Hint again at jobs that no worker claimed for a while."""
        offered, refused = set[JobRef](), set[str]()
        # A tenant that is refused a place may have all it may have; another tenant may still get one.
        for _ in range(self._queue.useful):
            waiting = self._engine.run(
                tickets.unclaimed,
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
        """Log which waiting jobs no living worker can run, and for want of what; nothing is changed."""
        found = self._engine.run(workers.unserved, self._terms.reoffer_after)
        for one in found:
            log.warning(one.sentence, extra={"alert": "unserved", "type": one.type, "version": one.version})
        return sum(one.waiting for one in found)

    def _run_one(self, statement: Callable[..., int], *parameters: object) -> int:
        if self._dry_run:
            return self._engine.run(undone, statement, *parameters)
        return self._engine.run(statement, *parameters)

    def _until_done(self, run_batch: Callable[[], int]) -> int:
        total = done = run_batch()
        while done and not self._dry_run:
            self._at_each_step()
            done = run_batch()
            total += done
        return total

    def _in_each_tenant(self, statement: Callable[..., int], *parameters: object) -> int:
        total, troubles = 0, dict[str, str]()
        for slug, schema in self._engine.run(tickets.active_tenants):
            self._at_each_step()
            with apart(troubles, slug):
                total += self._run_one(statement, schema, *parameters)
        if troubles:
            raise PassesFailed.of(troubles)
        return total
