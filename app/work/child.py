"""What a supervisor sees of one forked child: a pid to watch, claims to rescue, a deadline to enforce."""

import os
import pickle
import signal
import socket
from time import monotonic

from app.jobs.claim import Group
from app.work import causes, exit_codes
from app.work.stop import StopRequest

FREE, LEAVING, MOVED = b".", b"!", b"~"


class Child:
    """A process that runs one attempt at a time, or one group of them; in between it is idle."""

    def __init__(self, pid: int, channel: socket.socket, stop: StopRequest) -> None:
        self.pid = pid
        # Readable as soon as the process has ended, however it ended.
        self.descriptor = os.pidfd_open(pid)
        self.channel = channel
        self.claims: Group = ()
        self.since = monotonic()
        self.killed_for: str | None = None
        self.leaving = self.asked = False
        self.overdue: str | None = None  # which limit its attempt has passed
        self.overdue_since = 0.0
        self.cancelled_at: float | None = None  # since when its parent knows that somebody wants its job stopped
        self._stop = stop

    def assign(self, claims: Group) -> None:
        """Give the idle child claims to run; one that is dead by now is buried with them."""
        self.claims, self.since = claims, monotonic()
        self.overdue, self.asked = None, False
        self.cancelled_at = None
        self._stop.withdraw()
        self._stop.transaction_ends()
        try:
            self.channel.send(pickle.dumps(claims))
        except (BrokenPipeError, ConnectionResetError):
            return

    def hear(self) -> None:
        """Read the child's news: a job moved, or its attempts were recorded, and whether it takes another."""
        try:
            news = self.channel.recv(1)
        except ConnectionResetError:
            return  # it died with claims unread; its death is told apart
        if news and news != MOVED:
            self.claims, self.since = (), monotonic()
            self.leaving = news == LEAVING

    def why(self, code: int) -> str | None:
        """Return why its parent had it end, None if it ended by itself with this exit code."""
        return self.killed_for or (self.overdue if code == exit_codes.TIME_LIMIT else None)

    @property
    def in_transaction_since(self) -> float | None:
        """Return since when the attempt's transaction is open."""
        return self._stop.in_transaction_since

    @property
    def idle(self) -> bool:
        """Say whether the child could take claims now."""
        return not self.claims and not self.leaving

    def dismiss(self) -> None:
        """Let the idle child leave in good order."""
        self.leaving = True
        self.channel.shutdown(socket.SHUT_WR)

    def ask_to_stop(self, reason: bytes) -> None:
        """Have the child's attempt stop at its next safe place."""
        self.asked = True
        self._stop.name(reason)
        self._send(signal.SIGTERM)

    def cancel(self, *, grace: float) -> None:
        """Somebody wants the child's job stopped: end it if it has not stopped by itself within `grace` seconds."""
        self.cancelled_at = self.cancelled_at or monotonic()
        if monotonic() >= self.cancelled_at + grace:
            self.kill(causes.CANCELLED)

    def kill(self, cause: str) -> None:
        """End the child and everything it started."""
        self.killed_for = self.killed_for or cause
        self._send_group(signal.SIGKILL)
        self._send(signal.SIGKILL)

    def reap(self) -> int:
        """Collect the ended child; returns its exit code, negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        self.channel.close()
        return os.waitstatus_to_exitcode(status)

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
