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
from app.work.child import Child, RunAttempt, fork_child
from app.work.engine import EngineLink
from app.work.stop import StopRequest

if TYPE_CHECKING:
    from app.jobs.handler import JobHandler

log = logging.getLogger(__name__)

LOGIN_RETRY = 30.0


class Source(Protocol):
    """Where a supervisor's claims come from."""

    def take(self, worker: UUID, free: int) -> list[Claim]:
        """Claim up to `free` jobs; none means there is nothing to do now."""

    @property
    def exhausted(self) -> bool:
        """Say whether nothing will come any more, so that an idle supervisor may leave."""

    def drop_in_child(self) -> None:
        """In a forked child: let go of what is the parent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The supervisor's times, in seconds."""

    heartbeat: float
    dead_after: float
    grace: float
    kill_after: float  # between asking an overdue child to stop and killing it


class Supervisor:
    """Runs claims in forked children, `slots` at a time, until its source is exhausted or it is told to stop."""

    def __init__(
        self, *, backend: str, engine: EngineLink, source: Source, run: RunAttempt, registry: Registry, pace: Pace,
        slots: int = 1, chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._engine = engine
        self._source = source
        self._run_attempt = run
        self._registry = registry
        self._pace = pace
        self._slots = slots
        self._chance = chance
        self._children: dict[int, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._stop_asked_at: float | None = None
        self._forced = False
        self._last_alive = monotonic()

    def run(self) -> None:
        """Work until there is nothing left, a signal comes, or this worker is declared dead."""
        self._worker = self._engine.run(tickets.start_worker, backend=self._backend, host=HOST, pid=os.getpid())
        self._listen()
        try:
            while self._go_on():
                self._fill()
                if self._children:
                    self._watch()
                elif self._source.exhausted:
                    break
        finally:
            for child in list(self._children.values()):
                child.kill("its supervisor failed")
            self._engine.run(tickets.stop_worker, self._worker)

    def _go_on(self) -> bool:
        self._heartbeat()
        return bool(self._children) or self._stop_asked_at is None

    def _fill(self) -> None:
        free = self._slots - len(self._children)
        if free <= 0 or self._stop_asked_at is not None:
            return
        for claim in self._source.take(self._worker, free):
            crash_points.reach("claimed")
            child = fork_child(claim, self._run_attempt, before=self._drop_in_child)
            self._children[child.pid] = child
            self._selector.register(child.descriptor, selectors.EVENT_READ, child)

    def _watch(self) -> None:
        """Wait for a death, a signal, a heartbeat's time or a limit, whichever comes first."""
        for key, _ in self._selector.select(self._patience()):
            if isinstance(key.data, Child):
                self._bury(key.data)
            else:
                os.read(self._wakeup, 64)
        self._enforce()

    def _patience(self) -> float:
        moments = [self._last_alive + self._pace.heartbeat, *map(self._deadline, self._children.values())]
        if self._stop_asked_at is not None:
            moments.append(self._stop_asked_at + self._pace.grace)
        return max(0.01, min(moments) - monotonic())

    def _deadline(self, child: Child) -> float:
        deadline = child.started + self._handler(child.claim).timeout
        return deadline + self._pace.kill_after if child.overdue else deadline

    def _enforce(self) -> None:
        leaving = self._stop_asked_at is not None and monotonic() >= self._stop_asked_at + self._pace.grace
        for child in self._children.values():
            if leaving or self._forced:
                child.kill(STOPPING)
            elif monotonic() >= self._deadline(child):
                self._end_overdue(child)
            elif self._stop_asked_at is not None and not child.asked:
                log.info("stopping: the job ends at its next safe place", extra=_fields(child.claim))
                child.ask_to_stop(StopRequest.GRACEFUL)

    def _end_overdue(self, child: Child) -> None:
        cause = f"time limit of {self._handler(child.claim).timeout:g} s"
        if child.overdue:
            child.kill(cause)
        else:
            child.overdue = True
            child.ask_to_stop(StopRequest.TIME_LIMIT)

    def _bury(self, child: Child) -> None:
        """Reap a dead child; if its job was not finished, take the job back at once."""
        self._selector.unregister(child.descriptor)
        del self._children[child.pid]
        status = child.reap()
        code = os.waitstatus_to_exitcode(status)
        cause = child.killed_for or self._cause(code, child)
        blameless = code == exit_codes.LOGIN_REFUSED or cause == STOPPING
        verdict = self._engine.run(
            recovery.rescue,
            child.claim.login.schema,
            child.claim.job_id,
            child.claim.token,
            cause=cause,
            retry_in=timedelta(seconds=self._pause(code, cause, child.claim)),
            counted=not blameless,
        )
        if verdict != "gone":
            log.warning("job taken back: %s; now %s", cause, verdict, extra=_fields(child.claim))

    def _cause(self, code: int, child: Child) -> str:
        if code < 0:
            name = signal.Signals(-code).name
            hint = "; if nobody sent it, the system ran out of memory" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}"
        if code == exit_codes.OUT_OF_MEMORY:
            return "out of memory"
        if code == exit_codes.LOGIN_REFUSED:
            return "the tenant's login was refused"
        if code == exit_codes.TIME_LIMIT:
            return f"time limit of {self._handler(child.claim).timeout:g} s"
        return f"exited with status {code} without finishing"

    def _pause(self, code: int, cause: str, claim: Claim) -> float:
        if cause == STOPPING:
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
        if monotonic() < self._last_alive + self._pace.heartbeat:
            return
        try:
            known = self._engine.run(tickets.keep_alive, self._worker)
        except psycopg.OperationalError:
            # The database is away. Past the time after which others may take our jobs, we must not run them.
            if monotonic() > self._last_alive + self._pace.dead_after:
                raise
            log.warning("heartbeat failed; the database does not answer")
            return
        if not known:
            raise DeclaredDead("this worker was silent for too long and others have its jobs; it stops")
        self._last_alive = monotonic()

    def _listen(self) -> None:
        self._wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
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


class DeclaredDead(TurnoError):
    """Others hold this worker's jobs now."""


class Defaults:
    """The limits of a handler that cannot be loaded here."""

    timeout = 3600.0
    retry = RetryPolicy()


STOPPING = "its worker was stopped"
HOST = socket.gethostname()


def _fields(claim: Claim) -> dict[str, object]:
    return {"tenant": claim.login.slug, "job_id": str(claim.job_id), "attempt": claim.attempt}
