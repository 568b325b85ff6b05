"""Take back the jobs of ended children: each in a separate transaction, repeated until it succeeds."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg

from turno.jobs.handler import Registry
from turno.jobs.job import Batch, Claim
from turno.jobs.outcome import RetryPolicy
from turno.runner import exit_codes
from turno.store.engine.engine import Engine
from turno.store.outage import in_short, unreachable
from turno.worker import crash_reasons
from turno.worker.child import Unfinished
from turno.worker.running_jobs import ChangeNotifier

log = logging.getLogger(__name__)

# Seconds before the next attempt of a job that is not to blame for the end of its child.
WAITS = {exit_codes.LOGIN_REFUSED: 30.0, exit_codes.DATABASE_AWAY: 2.0, exit_codes.DATABASE_BUSY: 5.0}
OF_THE_TENANT = (exit_codes.LOGIN_REFUSED, exit_codes.DATABASE_BUSY)  # these reasons hold for all jobs of the tenant
NO_PROCESS_PAUSE = 30.0  # seconds until a job that no child could be given may be claimed again
REFUSED = RetryPolicy(first=0.5, longest=60.0)  # when a refused rescue is tried again
TENANT_WAITS = 5.0  # seconds for which at most a refused rescue delays its tenant's other rescues and claims
# After PASSED_OVER_MOST passed over batches in a row, nothing is claimed for PASSED_OVER_PAUSE seconds.
PASSED_OVER_MOST, PASSED_OVER_PAUSE = 16, 0.25
FLUSH_SECONDS = 0.5  # of rescuing, after which the supervisor has to send its heartbeat
# No such schema: the tenant was removed, together with its tickets. A missing function does not count: a newer release
# has replaced it, and a worker of that release can rescue the job.
TENANT_GONE = psycopg.errors.InvalidSchemaName


@dataclass(slots=True, kw_only=True)
class PendingRescue:
    """A claim without a process, and the facts for its record.

    With `handed`, a process may have begun the job; `child` is that process if this supervisor has seen its end. With
    `counted`, the job is to blame; None if it is unknown.
    """

    claim: Claim
    cause: str
    pause: float
    counted: bool | None = False
    handed: bool = True
    child: int | None = None
    due: float
    refusals: int = 0


@dataclass(kw_only=True, eq=False)
class Rescuer:
    """Remembers each job that is to be taken back or given back, and does it as soon as the database lets it.

    A rescue that is refused is put off, and its tenant's others with it for a moment; no other tenant's is. `ready` is
    called when a job that was taken back could run again at once.
    """

    engine: Engine
    registry: Registry
    change_notifier: ChangeNotifier
    ready: Callable[[], None]
    chance: Callable[[], float]
    clock: Callable[[], float] = monotonic
    _pending: dict[UUID, PendingRescue] = field(default_factory=dict)  # by token
    _passed_over_until: dict[int, float] = field(default_factory=dict)  # by tenant
    _passed_over: int = 0  # batches, since the last one that was not
    claims_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.claims_at = self.clock()

    def __bool__(self) -> bool:
        """Say whether a rescue is pending."""
        return bool(self._pending)

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of the claims with a pending rescue."""
        return set(self._pending)

    @property
    def due(self) -> float:
        """The moment of the next rescue, on the monotonic clock; infinite if none is pending."""
        return max(min((orphan.due for orphan in self._pending.values()), default=math.inf), self.engine.again_at)

    def child_ended(self, unfinished: Unfinished, code: int, why: str | None) -> Batch:
        """Take the jobs from a child that ended with this exit code; `why` is the reason for which the parent ended it.

        Returns the claims that the child had not begun, for another child.
        """
        cause = why or crash_reasons.of_end(code)
        blameless = code in WAITS or cause in crash_reasons.BLAMELESS
        begun, unbegun = unfinished.begun, unfinished.unbegun
        if code in WAITS:  # no handler was called, and another child would fail in the same way
            begun, unbegun = begun + unbegun, ()
        # The job to blame first: its rescue ends the child's sessions, and frees the locks that all further rescues
        # need.
        for claim in sorted(begun, key=lambda claim: claim is not unfinished.blamed):
            if blameless or claim is unfinished.blamed:
                pause = self._pause(code, cause, claim)
                self._add(claim, cause, pause, counted=not blameless, child=unfinished.pid)
            else:
                counted = None if unfinished.blamed is None else False
                self._add(claim, crash_reasons.ANOTHERS, 0.0, counted=counted, child=unfinished.pid)
            if code in OF_THE_TENANT and why is None:
                self._pass_over_for(claim, WAITS[code])
        return unbegun

    def no_process(self, batch: Batch, cause: str) -> None:
        """Give back a batch that has no process or no login; no worker claims it for a while."""
        for claim in batch:
            self._add(claim, cause, NO_PROCESS_PAUSE, handed=False)

    def reply_lost(self, claim: Claim) -> None:
        """Give back a claim after a reply that was lost with a connection: no child has it, and this worker lives.

        Not a rescue: it would end the sessions of this worker's other jobs of the tenant.
        """
        self._add(claim, crash_reasons.REPLY_LOST, 0.0, handed=False)

    def not_started(self, batch: Batch) -> None:
        """Give back claims that would have to wait here until another job ends."""
        for claim in batch:
            self._add(claim, crash_reasons.NOT_STARTED, 0.0, handed=False)

    def pass_over(self, batches: Sequence[Batch]) -> list[Batch]:
        """Give back the batches of tenants with a recent failure to start or rescue a job; return the rest.

        Without other batches, nothing is claimed before `claims_at`: such a tenant may have many ready jobs.
        """
        others = []
        for batch in batches:
            wait = self._passed_over_until.get(batch[0].tenant_id, 0.0) - self.clock()
            if wait <= 0:
                others.append(batch)
                continue
            for claim in batch:
                self._add(claim, crash_reasons.TENANT_IN_TROUBLE, wait, handed=False)
        self._passed_over = 0 if others else self._passed_over + len(batches)
        if self._passed_over >= PASSED_OVER_MOST:
            self._passed_over = 0
            self.claims_at = self.clock() + PASSED_OVER_PAUSE
        return others

    def flush(self) -> None:
        """Rescue the due claims for at most FLUSH_SECONDS; a refused rescue is repeated later."""
        until = self.clock() + FLUSH_SECONDS
        # Rescues without a refusal first: a rescue that is always refused must not delay the rest of its tenant.
        for pending in sorted(self._pending.values(), key=lambda orphan: orphan.refusals):
            if self.engine.away or self.clock() > until:
                return
            if self.clock() >= pending.due and self._try(pending):
                del self._pending[pending.claim.token]

    def flush_all(self) -> None:
        """Rescue each due claim once, without a time limit, at the end of this worker."""
        while self.due <= self.clock():
            self.flush()

    def _try(self, pending: PendingRescue) -> bool:
        try:
            if self._rescue(pending) == "pending" and not pending.pause:
                self.ready()  # no hint was sent for it
        except psycopg.Error as error:
            extra = pending.claim.log_fields
            if isinstance(error, TENANT_GONE):
                log.error("job not taken back, its tenant is gone: %s", in_short(error), extra=extra)  # noqa: TRY400
                return True
            log.warning("job not taken back yet: %s", in_short(error), extra=extra)
            if not unreachable(error):
                self._put_off(pending)
            return False
        return True

    def _put_off(self, refused: PendingRescue) -> None:
        refused.refusals += 1
        wait = REFUSED.delay(refused.refusals, self.chance())
        refused.due = self.clock() + wait
        if not refused.handed:
            return  # only its ticket is locked, so the tenant's other jobs can be rescued
        wait = min(wait, TENANT_WAITS)
        self._pass_over_for(refused.claim, wait)
        for other in self._pending.values():
            if other.handed and other.claim.tenant_id == refused.claim.tenant_id:
                other.due = max(other.due, self.clock() + wait)

    def _pass_over_for(self, claim: Claim, seconds: float) -> None:
        until = self.clock() + seconds
        self._passed_over_until[claim.tenant_id] = max(until, self._passed_over_until.get(claim.tenant_id, until))

    def _add(self, claim: Claim, cause: str, pause: float, **more: Any) -> None:
        self._pending[claim.token] = PendingRescue(claim=claim, cause=cause, pause=pause, due=self.clock(), **more)

    def _pause(self, code: int, cause: str, claim: Claim) -> float:
        if cause in crash_reasons.BLAMELESS:
            return 0.0
        if code in WAITS:
            return WAITS[code]
        # The number of crashes is not known here; that of the attempt is the nearest to it.
        return self.registry.handler(claim.type).retry.delay(claim.attempt, self.chance())

    def _rescue(self, pending: PendingRescue) -> str:
        claim, pause = pending.claim, timedelta(seconds=pending.pause)
        if not pending.handed:
            self.engine.unclaim(claim.job_id, claim.token, pause)
            # A claim in advance that no child has begun is ordinary.
            level = logging.DEBUG if pending.cause == crash_reasons.NOT_STARTED else logging.INFO
            log.log(level, "job given back: %s", pending.cause, extra=claim.log_fields)
            return "pending"
        verdict = self.engine.rescue(
            claim.login.schema,
            claim.job_id,
            claim.token,
            cause=pending.cause,
            retry_in=pause,
            counted=pending.counted,
            child=pending.child,
        )
        self.change_notifier.changed((claim,))
        if verdict == "failed":
            log.error("job failed, crashed once too often: %s", pending.cause, extra=claim.log_fields)
        elif verdict != "gone":
            log.warning("job taken back: %s; now %s", pending.cause, verdict, extra=claim.log_fields)
        return verdict
