"""Take back the jobs that nobody here runs any more: each is a debt of its own, tried again until it is settled."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg

from turno.jobs.claim import Batch, Claim
from turno.jobs.registry import Registry
from turno.runner import exit_codes
from turno.store.engine import recovery, tickets
from turno.store.engine_link import EngineLink
from turno.store.outage import in_short, unreachable
from turno.worker import crash_reasons
from turno.worker.change_notifier import ChangeNotifier
from turno.worker.child import Remains

log = logging.getLogger(__name__)

# How many seconds a job waits whose child ended for no fault of the job's.
WAITS = {exit_codes.LOGIN_REFUSED: 30.0, exit_codes.DATABASE_AWAY: 2.0, exit_codes.DATABASE_BUSY: 5.0}
THE_TENANTS = (exit_codes.LOGIN_REFUSED, exit_codes.DATABASE_BUSY)  # what kept one job keeps its tenant's others, too
UNFIT_PAUSE = 30.0
FIRST_RETRY, LAST_RETRY = 0.5, 60.0  # seconds until a refused rescue is tried again: doubling between these
COMPANY_WAITS = 5.0  # seconds for which at most a refused rescue holds up its tenant's other rescues and claims
# So many batches passed over with no other between them are followed by so many seconds without a claim.
PASSED_OVER_MOST, PASSED_OVER_REST = 16, 0.25
AT_A_TIME = 0.5  # seconds of rescuing after which the supervisor is to say that it lives
# No such schema: the tenant was removed, and its tickets went with it. A function that is not there is another matter:
# a newer release has another one in its place, and the debt is for a worker of that release.
TENANT_GONE = psycopg.errors.InvalidSchemaName


@dataclass(slots=True, kw_only=True)
class PendingRescue:
    """A claim that nobody here works for any more, and what is to be said about it.

    `handed` says that a process may have begun it, `child` is that process if this supervisor saw it end. `counted`
    says whether the job is to blame; None that nobody knows.
    """

    claim: Claim
    cause: str
    pause: float
    counted: bool | None = False
    handed: bool = True
    child: int | None = None
    due: float
    refusals: int = 0


class Rescuer:
    """Owes the database the jobs of children that ended without finishing them, and settles each when it can.

    A rescue that is refused waits by itself, and its tenant's others with it for a moment; nobody else's does.
    """

    def __init__(
        self,
        *,
        engine: EngineLink,
        registry: Registry,
        change_notifier: ChangeNotifier,
        ready: Callable[[], None],
        chance: Callable[[], float],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`ready` is called when a job that was taken back could run again at once."""
        self._engine = engine
        self._registry = registry
        self._change_notifier = change_notifier
        self._ready = ready
        self._chance = chance
        self._clock = clock
        self._pending: dict[UUID, PendingRescue] = {}  # by token
        self._troubled: dict[int, float] = {}  # tenants, and until when their claims are passed over
        self._passed_over = 0  # turns, since the last one that was not
        self.claims_at = clock()

    def __bool__(self) -> bool:
        """Say whether anything is owed."""
        return bool(self._pending)

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of the claims that are owed."""
        return set(self._pending)

    @property
    def due(self) -> float:
        """The moment of the next rescue, on the monotonic clock; infinite if nothing is owed."""
        return max(min((one.due for one in self._pending.values()), default=math.inf), self._engine.again_at)

    def from_dead(self, remains: Remains, code: int, why: str | None) -> Batch:
        """Take its jobs from a child that ended with this exit code; `why` says if it was made to.

        Returns those that another child may begin: it was not at them.
        """
        cause = why or crash_reasons.of_end(code)
        blameless = code in WAITS or cause in crash_reasons.BLAMELESS
        begun, rest = (remains.begun, remains.rest) if code not in WAITS else (remains.begun + remains.rest, ())
        # The one to blame first: with it go the backends, and their locks.
        for claim in sorted(begun, key=lambda claim: claim is not remains.blamed):
            if blameless or claim is remains.blamed:
                pause = self._pause(code, cause, claim)
                self._add(claim, cause, pause, counted=not blameless, child=remains.pid)
            else:
                counted = None if remains.blamed is None else False
                self._add(claim, crash_reasons.ANOTHERS, 0.0, counted=counted, child=remains.pid)
            if code in THE_TENANTS and why is None:
                self._trouble(claim, WAITS[code])
        return rest

    def unfit(self, batch: Batch, cause: str) -> None:
        """Have jobs that cannot be started here wait, for somebody else or for better times."""
        for claim in batch:
            self._add(claim, cause, UNFIT_PAUSE, handed=False)

    def unheard(self, claim: Claim) -> None:
        """Give back a claim whose answer was lost with a connection: nobody runs it, and we are alive."""
        self._add(claim, crash_reasons.UNHEARD, 0.0)

    def unbegun(self, batch: Batch) -> None:
        """Give back claims that would have to wait here until another job ends."""
        for claim in batch:
            self._add(claim, crash_reasons.UNBEGUN, 0.0, handed=False)

    def pass_over(self, batches: Sequence[Batch]) -> list[Batch]:
        """Give back batches of tenants whose jobs could neither be started nor rescued a moment ago; return the others.

        Where nothing else is found, nothing is to be claimed before `claims_at`: such a tenant may have very many.
        """
        others = []
        for batch in batches:
            wait = self._troubled.get(batch[0].tenant_id, 0.0) - self._clock()
            if wait <= 0:
                others.append(batch)
                continue
            for claim in batch:
                self._add(claim, crash_reasons.TENANT_IN_TROUBLE, wait, handed=False)
        self._passed_over = 0 if others else self._passed_over + len(batches)
        if self._passed_over >= PASSED_OVER_MOST:
            self._passed_over = 0
            self.claims_at = self._clock() + PASSED_OVER_REST
        return others

    def flush(self) -> None:
        """Rescue what is due, but not for long; a rescue that is refused is put off."""
        until = self._clock() + AT_A_TIME
        # Those that were never refused first: one that always is must not hold up its tenant's others.
        for pending in sorted(self._pending.values(), key=lambda one: one.refusals):
            if self._engine.away or self._clock() > until:
                return
            if self._clock() >= pending.due and self._settled(pending):
                del self._pending[pending.claim.token]

    def flush_all(self) -> None:
        """Rescue what is due, however long it takes: each once, as this worker ends."""
        while self.due <= self._clock():
            self.flush()

    def _settled(self, pending: PendingRescue) -> bool:
        try:
            self._rescue(pending)
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
        wait = min(LAST_RETRY, FIRST_RETRY * 2 ** min(refused.refusals, 16)) * (0.8 + 0.4 * self._chance())
        refused.refusals += 1
        refused.due = self._clock() + wait
        if not refused.handed:
            return  # its ticket is locked, and nothing else of its tenant's was asked for
        wait = min(wait, COMPANY_WAITS)
        self._trouble(refused.claim, wait)
        for other in self._pending.values():
            if other.handed and other.claim.tenant_id == refused.claim.tenant_id:
                other.due = max(other.due, self._clock() + wait)

    def _trouble(self, claim: Claim, seconds: float) -> None:
        until = self._clock() + seconds
        self._troubled[claim.tenant_id] = max(until, self._troubled.get(claim.tenant_id, until))

    def _add(self, claim: Claim, cause: str, pause: float, **more: Any) -> None:
        self._pending[claim.token] = PendingRescue(claim=claim, cause=cause, pause=pause, due=self._clock(), **more)

    def _pause(self, code: int, cause: str, claim: Claim) -> float:
        if cause in crash_reasons.BLAMELESS:
            return 0.0
        if code in WAITS:
            return WAITS[code]
        # Crashes are counted apart from errors; the attempt's ordinal is the nearest thing known here.
        return self._registry.terms(claim.type).retry.delay(claim.attempt, self._chance())

    def _rescue(self, pending: PendingRescue) -> None:
        verdict = self._taken_back(pending) if pending.handed else self._given_back(pending)
        if verdict == "pending" and not pending.pause:
            self._ready()  # nobody else was told

    def _given_back(self, pending: PendingRescue) -> str:
        claim = pending.claim
        self._engine.run(tickets.unclaim, claim.job_id, claim.token, timedelta(seconds=pending.pause))
        log.info("job given back: %s", pending.cause, extra=claim.log_fields)
        return "pending"

    def _taken_back(self, pending: PendingRescue) -> str:
        claim = pending.claim
        verdict = self._engine.run(
            recovery.rescue,
            claim.login.schema,
            claim.job_id,
            claim.token,
            cause=pending.cause,
            retry_in=timedelta(seconds=pending.pause),
            counted=pending.counted,
            child=pending.child,
        )
        self._change_notifier.changed((claim,))
        if verdict == "failed":
            log.error("job failed, crashed once too often: %s", pending.cause, extra=claim.log_fields)
        elif verdict != "gone":
            log.warning("job taken back: %s; now %s", pending.cause, verdict, extra=claim.log_fields)
        return verdict
