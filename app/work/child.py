"""A forked process that runs one attempt, and what its parent can see of it."""

import logging
import os
import signal
from collections.abc import Callable
from time import monotonic
from typing import NoReturn

from app import crash_points
from app.errors import ClaimLost
from app.jobs.claim import Claim
from app.work import exit_codes, limits
from app.work.stop import StopRequest
from tenants.session import LoginRefused, NotConfined

log = logging.getLogger(__name__)

RunAttempt = Callable[[Claim, StopRequest], str]


class Child:
    """The parent's view: a pid to watch, a claim to rescue, a deadline to enforce."""

    def __init__(self, pid: int, claim: Claim, stop: StopRequest) -> None:
        self.pid = pid
        self.claim = claim
        # Readable as soon as the process has ended, however it ended.
        self.descriptor = os.pidfd_open(pid)
        self.started = monotonic()
        self.killed_for: str | None = None
        self.overdue = False
        self.asked = False
        self._stop = stop

    def ask_to_stop(self, reason: bytes) -> None:
        """Have the child stop at its next safe place."""
        self.asked = True
        self._stop.name(reason)
        self._send(signal.SIGTERM)

    def kill(self, cause: str) -> None:
        """End the child and everything it started."""
        self.killed_for = self.killed_for or cause
        self._send_group(signal.SIGKILL)
        self._send(signal.SIGKILL)

    def reap(self) -> int:
        """Collect the ended child and what it left running; returns its wait status."""
        _, status = os.waitpid(self.pid, 0)
        self._send_group(signal.SIGKILL)
        os.close(self.descriptor)
        return status

    def _send(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            return

    def _send_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def fork_child(claim: Claim, run: RunAttempt, *, before: Callable[[], None]) -> Child:
    """Fork a process that runs the attempt; `before` lets the child drop what is only its parent's.

    The child opens its own connections: it must never touch those of its parent.
    """
    stop = StopRequest()
    parent = os.getpid()
    # A SIGTERM between the fork and the child's own handler would be taken by the parent's copy and lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        _be_child(claim, run, stop, parent, before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return Child(pid, claim, stop)


def _be_child(claim: Claim, run: RunAttempt, stop: StopRequest, parent: int, before: Callable[[], None]) -> NoReturn:
    code = exit_codes.BROKEN
    try:
        limits.die_with_parent(parent)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop.listen()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        before()
        code = _run(claim, run, stop)
    finally:
        # Never through the interpreter's exit: that would close the parent's connection too.
        logging.shutdown()
        os._exit(code)


def _run(claim: Claim, run: RunAttempt, stop: StopRequest) -> int:
    extra = {"tenant": claim.login.slug, "job_id": str(claim.job_id), "attempt": claim.attempt}
    try:
        status = run(claim, stop)
    except ClaimLost as error:
        log.warning("%s", error, extra=extra)
    except MemoryError:
        return exit_codes.OUT_OF_MEMORY
    except (LoginRefused, NotConfined) as error:
        log.error("%s", error, extra=extra)  # noqa: TRY400 - the sentence is enough
        return exit_codes.LOGIN_REFUSED
    except SystemExit as request:
        return request.code if isinstance(request.code, int) else 1
    except Exception:
        log.exception("attempt not recorded", extra=extra)
        return exit_codes.BROKEN
    else:
        log.info("attempt ended: %s", status, extra=extra)
    crash_points.reach("leaving")
    return exit_codes.FINISHED
