"""What a supervisor sees of one forked child: a pid to watch, a claim to rescue, a deadline to enforce."""

import os
import pickle
import signal
import socket
from time import monotonic

from app.jobs.claim import Claim
from app.work.stop import StopRequest

FREE, LEAVING, MOVED = b".", b"!", b"~"


class Child:
    """A process that runs one attempt at a time; between two it is idle."""

    def __init__(self, pid: int, channel: socket.socket, stop: StopRequest) -> None:
        self.pid = pid
        # Readable as soon as the process has ended, however it ended.
        self.descriptor = os.pidfd_open(pid)
        self.channel = channel
        self.claim: Claim | None = None
        self.since = monotonic()
        self.killed_for: str | None = None
        self.leaving = self.overdue = self.asked = False
        self.cancelled_at: float | None = None  # since when its parent knows that somebody wants its job stopped
        self._stop = stop

    def assign(self, claim: Claim) -> None:
        """Give the idle child a claim to run; one that is dead by now is buried with it."""
        self.claim, self.since = claim, monotonic()
        self.overdue = self.asked = False
        self.cancelled_at = None
        self._stop.withdraw()
        try:
            self.channel.send(pickle.dumps(claim))
        except (BrokenPipeError, ConnectionResetError):
            return

    def hear(self) -> None:
        """Read the child's news: its job moved, or its attempt was recorded, and whether it takes another."""
        try:
            news = self.channel.recv(1)
        except ConnectionResetError:
            return  # it died with a claim unread; its death is told apart
        if news and news != MOVED:
            self.claim, self.since = None, monotonic()
            self.leaving = news == LEAVING

    @property
    def idle(self) -> bool:
        """Say whether the child could take a claim now."""
        return self.claim is None and not self.leaving

    def dismiss(self) -> None:
        """Let the idle child leave in good order."""
        self.leaving = True
        self.channel.shutdown(socket.SHUT_WR)

    def ask_to_stop(self, reason: bytes) -> None:
        """Have the child's attempt stop at its next safe place."""
        self.asked = True
        self._stop.name(reason)
        self._send(signal.SIGTERM)

    def kill(self, cause: str) -> None:
        """End the child and everything it started."""
        self.killed_for = self.killed_for or cause
        self._send_group(signal.SIGKILL)
        self._send(signal.SIGKILL)

    def reap(self) -> int:
        """Collect the ended child and what it left running; returns its exit code, negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        self._send_group(signal.SIGKILL)
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
