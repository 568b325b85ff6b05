"""What a supervisor sees of one forked child: a pid to watch, claims to rescue, a deadline to enforce."""

import os
import pickle
import signal
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from turno.jobs.claim import Assignment, Batch, Claim
from turno.runner import exit_codes
from turno.runner.protocol import LARGEST_PACKET, LEAVING, MOVED
from turno.runner.stop_request import StopRequest
from turno.worker import crash_reasons

LONG = 0.1  # seconds after which a job is not one of those that others may wait for


@dataclass(frozen=True, slots=True)
class News:
    """What a child says of claims: that they moved, or after how many seconds their attempts were over.

    `first` says that nothing was before them in their turn.
    """

    claims: Batch
    took: float | None = None
    first: bool = False


class Child:
    """A process that runs the groups it was given one after another; without any it is idle.

    What it has not begun lies in its inbox, from where either of us can take it, and nobody else. It may take the next
    before it says that the present is over.
    """

    def __init__(
        self,
        pid: int,
        channel: socket.socket,
        inbox: socket.socket,
        stop: StopRequest,
        unlock: Callable[[Claim], Claim],
    ) -> None:
        """`unlock` gives a claim's logins what it takes to log in: a child is told no other tenant's."""
        self.pid = pid
        # Readable as soon as the process has ended, however it ended.
        self.descriptor = os.pidfd_open(pid)
        self.channel = channel
        self.since = monotonic()
        self.killed_for: str | None = None
        self.leaving = False
        self._inbox = inbox
        self._groups: deque[Batch] = deque()
        self._stop = stop
        self._unlock = unlock
        self._ended = 0  # how many groups
        self._first = True  # nothing of its turn has ended
        self._untouched = False  # whether something may lie in the inbox
        self._next()

    def _next(self) -> None:
        self.since = monotonic()
        self.asked = False
        self.overdue: str | None = None  # which limit its attempt has passed
        self.overdue_since = 0.0
        self.cancelled_at: float | None = None  # since when its parent knows that somebody wants its job stopped

    @property
    def claims(self) -> Batch:
        """What it runs now."""
        return self._groups[0] if self._groups else ()

    @property
    def long_from(self) -> float:
        """The moment from which what it runs is a long job, on the monotonic clock."""
        return self.since + LONG

    @property
    def more(self) -> bool:
        """Say whether it was given something that it has not come to, as far as we know."""
        return self._untouched and len(self._groups) > 1

    @property
    def begun(self) -> Assignment:
        """Return what it may have begun together with the end of what it runs."""
        return tuple(self._groups)[1:]

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of everything it was given."""
        return {claim.token for group in self._groups for claim in group}

    def assign(self, turn: Assignment) -> None:
        """Give the idle child something to run; raises what `unlock` raises, and then it has got nothing."""
        packets = [pickle.dumps(tuple(map(self._unlock, group))) for group in turn]
        self._next()
        self._first = self._untouched = True
        for group, packet in zip(turn, packets, strict=True):
            self._groups.append(group)
            self.channel.send(packet)

    def take_back(self) -> Assignment:
        """Return what it has not begun, which it will not see any more."""
        back: list[Batch] = []
        while packet := _packet(self._inbox):
            back.append(pickle.loads(packet))  # noqa: S301 - written by ourselves
            self._groups.remove(back[-1])
        self._untouched = False
        return tuple(back)

    def hear(self) -> list[News]:
        """Read its news: jobs moved, or attempts were recorded, and whether it takes more."""
        heard = []
        while word := _packet(self.channel):
            if word == MOVED:
                heard.append(News(self.claims))
                continue
            heard.append(News(self._groups.popleft(), monotonic() - self.since, first=self._first))
            self._ended += 1
            self._first = False
            self._next()
            self.leaving = word == LEAVING
        return heard

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
        return not self._groups and not self.leaving

    def dismiss(self) -> None:
        """Let the idle child leave in good order."""
        self.leaving = True
        self.channel.shutdown(socket.SHUT_WR)

    def ask_to_stop(self, reason: bytes) -> None:
        """Have the child's attempt stop at its next safe place."""
        self.asked = True
        self._stop.name(reason, self._ended)
        self._send(signal.SIGTERM)

    def cancel(self, *, grace: float) -> None:
        """Somebody wants the child's job stopped: end it if it has not stopped by itself within `grace` seconds."""
        self.cancelled_at = self.cancelled_at or monotonic()
        if monotonic() >= self.cancelled_at + grace:
            self.kill(crash_reasons.CANCELLED)

    def kill(self, cause: str) -> None:
        """End the child and everything it started."""
        self.killed_for = self.killed_for or cause
        self._send_group(signal.SIGKILL)
        self._send(signal.SIGKILL)

    def reap(self) -> int:
        """Collect the ended child; returns its exit code, negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        self.close()
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Let go of both ends of its channel."""
        self.channel.close()
        self._inbox.close()

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


def _packet(end: socket.socket) -> bytes:
    """Return the next packet that has arrived; empty if there is none, or never will be."""
    try:
        return end.recv(LARGEST_PACKET, socket.MSG_DONTWAIT)
    except (BlockingIOError, ConnectionResetError):
        return b""
