"""The parent that claims, heartbeats, enforces limits, sees a child die and rescues its job."""

import logging
import os
import random
import selectors
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import psycopg

from app import crash_points
from app.errors import TurnoError
from app.jobs.claim import Claim
from app.jobs.registry import Registry
from app.jobs.retry import RetryPolicy
from app.store import recovery, tickets
from app.work import exit_codes
from app.work.child import Child
from app.work.child_process import Duty, fork_child
from app.work.engine import EngineLink
from app.work.janitor import Janitor
from app.work.stop import StopRequest

if TYPE_CHECKING:
    from app.jobs.handler import JobHandler

log = logging.getLogger(__name__)

LOGIN_RETRY = 30.0
UNFIT_PAUSE = 30.0
RETRY = 1.0  # seconds between two tries to reach a database that is away
STOPPING = "its worker was stopped"
CUT_OFF = "its worker could not reach the database for too long"
UNHEARD = "its worker never heard of its claim"
CANCELLED = "did not stop when it was cancelled"
HOST = socket.gethostname()


class Source(Protocol):
    """Where a supervisor's claims come from."""

    @property
    def exhausted(self) -> bool:
        """Say whether nothing will come any more, so that an idle supervisor may leave."""

    def take(self, worker: UUID, free: int) -> list[Claim]:
        """Claim up to `free` jobs; none means there is nothing to do now."""

    def pause(self) -> None:
        """Keep nothing from other workers: every child is busy, or this worker leaves."""

    def patience(self) -> float:
        """Return the seconds after which `take` wants to be called again, whatever happens."""

    def descriptor(self) -> int | None:
        """Return what becomes readable when a hint arrives."""

    def hear(self) -> None:
        """Read the hints that have arrived."""

    def drop_in_child(self) -> None:
        """In a forked child: let go of what is the parent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The supervisor's times, in seconds."""

    heartbeat: float
    dead_after: float
    grace: float
    kill_after: float  # between asking an overdue child to stop and killing it
    idle_child: float = 30.0  # after which a child beyond the fewest is dismissed


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many children there are: `fewest` when idle, `most` under load."""

    fewest: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """A job that its dead child left unfinished, and what is to be said about it."""

    claim: Claim
    cause: str
    pause: float
    counted: bool


class Supervisor:
    """Runs claims in forked children until its source is exhausted or it is told to stop."""

    def __init__(
        self,
        *,
        backend: str,
        engine: EngineLink,
        source: Source,
        duty: Duty,
        registry: Registry,
        pace: Pace,
        size: Size,
        janitor: Janitor | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._janitor = janitor
        self._backend = backend
        self._engine = engine
        self._source = source
        self._duty = duty
        self._registry = registry
        self._pace = pace
        self._size = size
        self._chance = chance
        self._children: dict[int, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._hints: int | None = None
        self._stop_asked_at: float | None = None
        self._forced = False
        self._last_alive = self._beat_due = monotonic()
        self._owed: list[TakeBack] = []
        self._pay_due = monotonic()

    def run(self) -> None:
        """Work until there is nothing left, a signal comes, or this worker is declared dead."""
        self._listen()
        self._worker = self._engine.run(tickets.start_worker, backend=self._backend, host=HOST, pid=os.getpid())
        try:
            while self._go_on():
                self._fill()
                self._fit()
                if self._janitor is not None:
                    self._janitor.tend(before=self._drop_in_child)
                if self._source.exhausted and not self._children and not self._owed:
                    break
                self._watch()
        finally:
            for child in list(self._children.values()):
                child.kill("its supervisor failed")
            if self._janitor is not None:
                self._janitor.dismiss()
            self._leave()

    def _leave(self) -> None:
        try:
            self._engine.run(tickets.stop_worker, self._worker)
        except psycopg.OperationalError as error:
            log.warning("left without a word, the database does not answer: %s", error)
        self._engine.close()

    def _go_on(self) -> bool:
        self._heartbeat()
        self._pay()
        if self._stop_asked_at is None:
            return True
        return bool(self._children or (self._owed and not self._grace_over()))

    def _free(self) -> int:
        """Count the claims that could be taken now: none while the database is away, or when told to stop."""
        if self._owed or self._stop_asked_at is not None:
            return 0
        return self._size.most - sum(not child.idle for child in self._children.values())

    def _fill(self) -> None:
        """Claim for the children that are free, or that could be forked."""
        free = self._free()
        if free <= 0:
            self._source.pause()
            return
        for claim in self._source.take(self._worker, free):
            crash_points.reach("claimed")
            try:
                child = next((child for child in self._children.values() if child.idle), None) or self._fork()
            except OSError as error:
                self._give_back(claim, f"no process could be had for it: {error}")
            else:
                child.assign(claim)
        self._pay()

    def _fit(self) -> None:
        """Keep the fewest children ready, dismiss those that were idle for long, and all when there is nothing more."""
        idle = [child for child in self._children.values() if child.idle]
        if self._stop_asked_at is not None or self._source.exhausted:
            for child in idle:
                child.dismiss()
            return
        while len(self._children) < self._size.fewest:
            try:
                self._fork()
            except OSError as error:
                log.warning("no child could be started: %s", error)
                break
        spare = len(self._children) - self._size.fewest
        for child in idle[:spare]:
            if monotonic() >= child.since + self._pace.idle_child:
                child.dismiss()

    def _fork(self) -> Child:
        child = fork_child(self._duty, before=self._drop_in_child)
        self._children[child.pid] = child
        self._selector.register(child.channel, selectors.EVENT_READ, child.hear)
        self._selector.register(child.descriptor, selectors.EVENT_READ, lambda: self._bury(child))
        return child

    def _watch(self) -> None:
        """Wait for news, a death, a hint, a signal, a heartbeat's time or a limit, whichever comes first."""
        self._register_hints()
        ready = self._selector.select(self._patience())
        # News before deaths: a child that recorded its attempt and left has finished it.
        for key, _ in sorted(ready, key=lambda event: isinstance(event[0].fileobj, int)):
            key.data()
        self._enforce()

    def _register_hints(self) -> None:
        # The source's connection may have been replaced since.
        current = self._source.descriptor()
        if current != self._hints:
            if self._hints is not None:
                self._selector.unregister(self._hints)
            if current is not None:
                self._selector.register(current, selectors.EVENT_READ, self._source.hear)
            self._hints = current

    def _patience(self) -> float:
        moments = [self._beat_due]
        if self._janitor is not None:
            moments.append(self._janitor.due)
        moments += [self._deadline(child) for child in self._children.values()]
        if self._owed:
            moments.append(self._pay_due)
        if self._stop_asked_at is not None:
            moments.append(self._stop_asked_at + self._pace.grace)
        # A source that is not asked while every child is busy would call for attention all the time.
        elif self._free() > 0:
            moments.append(monotonic() + self._source.patience())
        return max(0.001, min(moments) - monotonic())

    def _deadline(self, child: Child) -> float:
        if child.claim is None:
            return child.since + self._pace.idle_child + 1
        deadline = child.since + self._handler(child.claim).timeout
        return deadline + self._pace.kill_after if child.overdue else deadline

    def _enforce(self) -> None:
        stopping = self._stop_asked_at is not None
        grace_over = self._grace_over()
        for child in self._children.values():
            if grace_over:
                child.kill(STOPPING)
            elif child.claim is not None and monotonic() >= self._deadline(child):
                self._end_overdue(child, child.claim)
            elif child.claim is not None and stopping and not child.asked:
                log.info("stopping: the job ends at its next safe place", extra=_fields(child.claim))
                child.ask_to_stop(StopRequest.GRACEFUL)

    def _grace_over(self) -> bool:
        if self._stop_asked_at is None:
            return False
        return self._forced or monotonic() >= self._stop_asked_at + self._pace.grace

    def _end_overdue(self, child: Child, claim: Claim) -> None:
        if child.overdue:
            child.kill(self._time_limit(claim))
        else:
            child.overdue = True
            child.ask_to_stop(StopRequest.TIME_LIMIT)

    def _bury(self, child: Child) -> None:
        """Reap a dead child; if its job was not finished, take the job back at once."""
        self._selector.unregister(child.channel)
        self._selector.unregister(child.descriptor)
        del self._children[child.pid]
        code = child.reap()
        if child.claim is not None:
            self._take_back(child, child.claim, code)

    def _take_back(self, child: Child, claim: Claim, code: int) -> None:
        cause = child.killed_for or self._cause(code, claim)
        blameless = code == exit_codes.LOGIN_REFUSED or cause in (STOPPING, CUT_OFF)
        pause = self._pause(code, cause, claim)
        self._owed.append(TakeBack(claim=claim, cause=cause, pause=pause, counted=not blameless))
        self._pay_due = monotonic()
        self._pay()

    def _give_back(self, claim: Claim, cause: str) -> None:
        """Have a job that cannot be started here wait, for somebody else or for better times."""
        self._owed.append(TakeBack(claim=claim, cause=cause, pause=UNFIT_PAUSE, counted=False))

    def _pay(self) -> None:
        """Take back what dead children left; while the database is away, try again every second or so."""
        if monotonic() < self._pay_due:
            return
        while self._owed:
            try:
                self._rescue(self._owed[0])
            except psycopg.OperationalError as error:
                log.warning("job not taken back yet: %s", error, extra=_fields(self._owed[0].claim))
                self._pay_due = self._soon()
                return
            del self._owed[0]

    def _rescue(self, owed: TakeBack) -> None:
        claim = owed.claim
        verdict = self._engine.run(
            recovery.rescue,
            claim.login.schema,
            claim.job_id,
            claim.token,
            cause=owed.cause,
            retry_in=timedelta(seconds=owed.pause),
            counted=owed.counted,
        )
        if verdict != "gone":
            log.warning("job taken back: %s; now %s", owed.cause, verdict, extra=_fields(claim))

    def _soon(self) -> float:
        return monotonic() + RETRY * (0.8 + 0.4 * self._chance())

    def _cause(self, code: int, claim: Claim) -> str:
        if code < 0:
            name = signal.Signals(-code).name
            hint = "; if nobody sent it, the system ran out of memory" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}"
        match code:
            case exit_codes.OUT_OF_MEMORY:
                return "out of memory"
            case exit_codes.LOGIN_REFUSED:
                return "the tenant's login was refused"
            case exit_codes.TIME_LIMIT:
                return self._time_limit(claim)
            case exit_codes.LEFT:
                code = 0
        return f"exited with status {code} without finishing"

    def _time_limit(self, claim: Claim) -> str:
        return f"time limit of {self._handler(claim).timeout:g} s"

    def _pause(self, code: int, cause: str, claim: Claim) -> float:
        if cause in (STOPPING, CUT_OFF):
            return 0.0
        if code == exit_codes.LOGIN_REFUSED:
            return LOGIN_RETRY
        # Crashes are counted apart from errors; the attempt's ordinal is the nearest thing known here.
        return self._handler(claim).retry.delay(claim.attempt, self._chance())

    def _handler(self, claim: Claim) -> "type[JobHandler[object] | Defaults]":
        try:
            return self._registry.load(claim.type)
        except Exception:  # noqa: BLE001 - the child meets the same error and records it
            return Defaults

    def _heartbeat(self) -> None:
        if monotonic() < self._beat_due:
            return
        try:
            to_stop = self._engine.run(tickets.keep_alive, self._worker)
            held = self._engine.run(tickets.held, self._worker)
        except psycopg.OperationalError as error:
            log.warning("heartbeat failed; the database does not answer: %s", error)
            self._beat_due = min(self._soon(), monotonic() + self._pace.heartbeat)
            # Past the time after which others may take our jobs, we must not run them.
            if monotonic() > self._last_alive + self._pace.dead_after:
                for child in self._children.values():
                    if child.claim is not None:
                        child.kill(CUT_OFF)
            return
        if to_stop is None:
            raise DeclaredDead("this worker was silent for too long and others have its jobs; it stops")
        self._last_alive = monotonic()
        self._beat_due = self._last_alive + self._pace.heartbeat
        self._note_cancelled(to_stop)
        self._note_unheard(held)

    def _note_cancelled(self, to_stop: set[UUID]) -> None:
        """Remember which jobs should stop by themselves, and end those that have had their grace."""
        for child in self._children.values():
            if child.claim is None or child.claim.job_id not in to_stop:
                continue
            child.cancelled_at = child.cancelled_at or monotonic()
            if monotonic() >= child.cancelled_at + self._pace.grace:
                child.kill(CANCELLED)

    def _note_unheard(self, held: list[Claim]) -> None:
        """Give back claims whose answer was lost with a connection: nobody runs them, and we are alive."""
        known = {child.claim.token for child in self._children.values() if child.claim is not None}
        known |= {owed.claim.token for owed in self._owed}
        unheard = [claim for claim in held if claim.token not in known]
        self._owed += [TakeBack(claim=claim, cause=UNHEARD, pause=0.0, counted=False) for claim in unheard]

    def _listen(self) -> None:
        wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._selector.register(wakeup, selectors.EVENT_READ, lambda: os.read(wakeup, 64))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    # Only flips variables; the wake-up descriptor ends the wait, and the loop acts.
    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._stop_asked_at is not None:
            self._forced = True
            return
        self._stop_asked_at = monotonic()

    def _drop_in_child(self) -> None:
        self._engine.forget()
        self._source.drop_in_child()
        self._selector.close()
        # A brother's channel left open here would never tell him that his parent has dismissed him.
        for child in self._children.values():
            child.channel.close()


class DeclaredDead(TurnoError):
    """Others hold this worker's jobs now."""


class Defaults:
    """The limits of a handler that cannot be loaded here."""

    timeout = 3600.0
    retry = RetryPolicy()


def _fields(claim: Claim) -> dict[str, object]:
    return {"tenant": claim.login.slug, "job_id": str(claim.job_id), "attempt": claim.attempt}
