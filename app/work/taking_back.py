"""Take back the jobs that nobody here runs any more: at once, or as soon as the database answers again."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from uuid import UUID

import psycopg

from app.jobs.claim import Claim, Group
from app.jobs.registry import Registry
from app.store import effects, recovery
from app.work import causes, exit_codes
from app.work.announcer import Announcer
from app.work.engine import EngineLink, next_try

log = logging.getLogger(__name__)

# How many seconds a job waits whose child ended for no fault of the job's.
WAITS = {exit_codes.LOGIN_REFUSED: 30.0, exit_codes.DATABASE_AWAY: 2.0}
UNFIT_PAUSE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """A job that its dead child left unfinished, and what is to be said about it."""

    claim: Claim
    cause: str
    pause: float
    counted: bool
    buried: bool  # this supervisor saw the process end that ran it


class TakingBack:
    """Owes the database the jobs of children that ended without finishing them, and pays when it can."""

    def __init__(
        self,
        *,
        engine: EngineLink,
        registry: Registry,
        announcer: Announcer,
        ready: Callable[[], None],
        chance: Callable[[], float],
    ) -> None:
        """`ready` is called when a job that was taken back could run again at once."""
        self._engine = engine
        self._registry = registry
        self._announcer = announcer
        self._ready = ready
        self._chance = chance
        self._owed: list[TakeBack] = []
        self.due = monotonic()

    def __bool__(self) -> bool:
        """Say whether anything is owed."""
        return bool(self._owed)

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of the claims that are owed."""
        return {owed.claim.token for owed in self._owed}

    def from_dead(self, claims: Group, code: int, why: str | None) -> None:
        """Take its jobs from a child that ended with this exit code, at once; `why` says if it was made to.

        Which job of a group is to blame cannot be known: each is counted a crash, and runs alone from then on.
        """
        for claim in claims:
            cause = why or causes.of_end(code)
            blameless = code in WAITS or cause in causes.BLAMELESS
            # A group that was ended for one job's sake: that one is cancelled, no other has done anything.
            if cause == causes.CANCELLED and len(claims) > 1:
                cause, blameless = causes.COMPANY_CANCELLED, True
            self._owe(claim, cause, self._pause(code, cause, claim), counted=not blameless, buried=True)
            self.due = monotonic()
        self.pay()

    def unfit(self, claims: Group, cause: str) -> None:
        """Have jobs that cannot be started here wait, for somebody else or for better times."""
        for claim in claims:
            self._owe(claim, cause, UNFIT_PAUSE, counted=False)

    def unheard(self, claim: Claim) -> None:
        """Give back a claim whose answer was lost with a connection: nobody runs it, and we are alive."""
        self._owe(claim, causes.UNHEARD, 0.0, counted=False)

    def unbegun(self, claims: Group) -> None:
        """Give back claims that would have to wait here until another job ends."""
        for claim in claims:
            self._owe(claim, causes.UNBEGUN, 0.0, counted=False)

    def pay(self) -> None:
        """Take back what is owed; while the database is away, try again every second or so."""
        if monotonic() < self.due:
            return
        while self._owed:
            try:
                self._rescue(self._owed[0])
            except psycopg.OperationalError as error:
                log.warning("job not taken back yet: %s", error, extra=self._owed[0].claim.log_fields)
                self.due = next_try(self._chance)
                return
            del self._owed[0]

    def _owe(self, claim: Claim, cause: str, pause: float, *, counted: bool, buried: bool = False) -> None:
        self._owed.append(TakeBack(claim=claim, cause=cause, pause=pause, counted=counted, buried=buried))

    def _pause(self, code: int, cause: str, claim: Claim) -> float:
        if cause in causes.BLAMELESS:
            return 0.0
        if code in WAITS:
            return WAITS[code]
        # Crashes are counted apart from errors; the attempt's ordinal is the nearest thing known here.
        return self._registry.terms(claim.type).retry.delay(claim.attempt, self._chance())

    def _rescue(self, owed: TakeBack) -> None:
        claim = owed.claim
        if owed.buried:
            # First, so that whoever runs the job next knows that nobody is at its outside call any more.
            self._engine.run(effects.caller_gone, claim.login.schema, claim.token)
        verdict = self._engine.run(
            recovery.rescue,
            claim.login.schema,
            claim.job_id,
            claim.token,
            cause=owed.cause,
            retry_in=timedelta(seconds=owed.pause),
            counted=owed.counted,
        )
        self._announcer.changed((claim,))
        if verdict != "gone":
            log.warning("job taken back: %s; now %s", owed.cause, verdict, extra=claim.log_fields)
        if verdict == "pending" and not owed.pause:
            self._ready()  # nobody else was told
