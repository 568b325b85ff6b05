"""One forked child as its supervisor sees it: its process, its batch and how far it is."""

import math
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from uuid import UUID

from turno.jobs.job import Batch, Claim
from turno.runner import exit_codes
from turno.runner.line_ring import Line
from turno.runner.protocol import LARGEST_PACKET, LEAVING, PROGRESSED, Word, packed
from turno.runner.shared_state import SharedState
from turno.worker import crash_reasons

LONG_SECONDS = 0.1  # after which other jobs of the batch go to another child
SHOWN_AFTER_SECONDS = 0.05  # after which people see that a job runs


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The unfinished claims of an ended child.

    The child may have begun `begun`, and certainly did not begin `unbegun`. `blamed` is the claim of the running
    handler, or the only claim with a handler that can have run; None if it is unknown.
    """

    pid: int
    begun: Batch
    unbegun: Batch
    blamed: Claim | None


@dataclass(frozen=True, slots=True)
class Report:
    """A child's report of claims: they have visibly changed, or they have ended after `seconds_each`."""

    claims: Batch
    seconds_each: float | None = None


class Child:
    """A process that runs one batch after another; without a batch it is idle.

    The parent can take back the jobs of the batch that the child has not begun.
    """

    def __init__(
        self, pid: int, channel: socket.socket, shared: SharedState, unlock: Callable[[Claim, int], Claim]
    ) -> None:
        """`unlock` adds to a batch's first claim the logins' passwords, and this process's name for their sessions."""
        self.pid = pid
        # Readable as soon as the process has ended, however it ended.
        self.descriptor = os.pidfd_open(pid)
        self.channel = channel
        self.killed_for: str | None = None
        self.leaving = False
        self.claims: Batch = ()  # its batch, without the jobs that the parent took back
        self._given: Batch = ()  # the same with that, until it is given something else
        self._shared = shared
        self._unlock = unlock
        self._number = 0  # of its batch
        self._since = monotonic()
        self.stop_requested = False
        self._shown: UUID | None = None
        self._show_at = 0.0
        self._busy = False
        # Which job passed which limit, and which was cancelled, with the moment.
        self._overdue: tuple[UUID | None, str, float] = (None, "", 0.0)
        self._cancelled: tuple[UUID | None, float] = (None, 0.0)

    def assign(self, batch: Batch) -> None:
        """Send the idle child a batch; an error of `unlock` is raised before anything is sent.

        Raises ConnectionError if the process has ended: it is idle no more, and its batch stays the caller's.
        """
        packet = packed(batch, self._unlock(batch[0], self.pid))
        try:
            self.channel.send(packet)
        except ConnectionError:
            self.leaving = True
            raise
        self._number += 1
        self._since = monotonic()
        self.stop_requested, self._overdue, self._busy = False, (None, "", 0.0), True
        self._show_at = 0.0
        self.claims = self._given = batch

    def read(self) -> tuple[list[Report], Batch]:
        """Return the new reports, and the claims of an ended batch that the child has not finished."""
        reports: list[Report] = []
        back: Batch = ()
        while packet := _packet(self.channel):
            word = Word.of(packet)
            if word.kind == PROGRESSED:
                reports.append(Report(self.claims[word.jobs : word.jobs + 1]))
                continue
            done, back = self.claims[: word.jobs], self.claims[word.jobs :]
            reports.append(Report(done, word.micros / 1e6 / max(1, word.jobs)))
            self.claims, self._busy, self._since = (), False, monotonic()
            self.leaving = word.kind == LEAVING
        return reports, back

    def take_lines(self) -> list[tuple[Claim, Line]]:
        """Return the new log lines of the jobs of its batch, also after its end."""
        lines = self._shared.lines.take()
        return [(self._given[line.job], line) for line in lines
                if line.batch == self._number and line.job < len(self._given)]  # fmt: skip

    def call_back(self) -> Batch:
        """Take back the jobs that the child has not begun, and return their claims."""
        begun = self._shared.call_back(self._number) + 1
        self.claims, back = self.claims[:begun], self.claims[begun:]
        return back

    # Its present job -----------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Return whether the child can take a batch now."""
        return not self._busy and not self.leaving and self.killed_for is None

    @property
    def current(self) -> Claim | None:
        """Return the claim of the running handler; None between two jobs."""
        at = self._shared.at_work(self._number)
        return None if at is None or at >= len(self.claims) else self.claims[at]

    @property
    def since(self) -> float:
        """Since when its present job runs, or it is idle, by the monotonic clock."""
        return max(self._since, self._shared.since) if self._busy else self._since

    @property
    def long_from(self) -> float:
        """The moment from which its present job is a long job, on the monotonic clock."""
        return self.since + LONG_SECONDS

    @property
    def more(self) -> bool:
        """Say whether it was given something that it has not begun."""
        return len(self.claims) > self._shared.furthest(self._number) + 1

    @property
    def call_back_at(self) -> float:
        """The moment at which the parent takes back the jobs after the present job; infinite without such jobs.

        It is infinite before the first job has begun: a slow login, for example, would delay them elsewhere, too.
        """
        return self.long_from if self.more and self._shared.furthest(self._number) >= 0 else math.inf

    @property
    def tokens(self) -> set[UUID]:
        """Return the tokens of everything it was given."""
        return {claim.token for claim in self.claims}

    @property
    def in_transaction_since(self) -> float | None:
        """Return since when the present transaction is open."""
        return self._shared.in_transaction_since

    @property
    def backend(self) -> int:
        """Return the process of the server that works for it."""
        return self._shared.backend

    @property
    def show_at(self) -> float:
        """The moment to look whether its present job is to be shown as running; infinite if it is shown, or idle.

        A child does not report the begin of a job, for example after a slow login: its parent reads the shared memory.
        """
        token = self._current_token
        if token is None:
            return monotonic() + SHOWN_AFTER_SECONDS if self._busy else math.inf
        return math.inf if token == self._shown else max(self.since + SHOWN_AFTER_SECONDS, self._show_at)

    def shown(self, claim: Claim) -> None:
        """Note that the job is shown as running."""
        self._shown = claim.token

    def show_later(self, seconds: float) -> None:
        """Note that it could not be shown now."""
        self._show_at = monotonic() + seconds

    # Its end -----------------------------------------------------------------------------------

    def why(self, code: int) -> str | None:
        """Return the reason for which the parent ended the child; None if the child exited with this code."""
        return self.killed_for or (self.overdue if code == exit_codes.TIME_LIMIT else None)

    @property
    def unfinished(self) -> Unfinished:
        """Return the part of its batch that is not over."""
        begun = self._shared.furthest(self._number) + 1 or len(self.claims)
        blamed = self.current
        if blamed is None and len(self.claims[:begun]) == 1:
            blamed = self.claims[0]
        return Unfinished(self.pid, self.claims[:begun], self.claims[begun:], blamed)

    @property
    def overdue(self) -> str | None:
        """Return which limit its present job has passed."""
        token, limit, _ = self._overdue
        return limit if limit and token == self._current_token else None

    @property
    def overdue_since(self) -> float:
        """The moment at which that was found, by the monotonic clock."""
        return self._overdue[2]

    def dismiss(self) -> None:
        """Let the idle child leave in good order."""
        self.leaving = True
        self.channel.shutdown(socket.SHUT_WR)

    def pass_limit(self, limit: str, claim: Claim | None) -> None:
        """Have it end: this job of its batch has passed a limit, or with None the time between two jobs has."""
        self._overdue = (None if claim is None else claim.token, limit, monotonic())
        self._signal(SharedState.TIME_LIMIT, None if claim is None else self.claims.index(claim))

    def ask_to_stop(self) -> None:
        """Have its present job stop at its next safe place, and begin no other."""
        self.stop_requested = True
        self._signal(SharedState.GRACEFUL, None)

    def cancel(self, *, grace: float) -> None:
        """Ask the present job to stop, for a user; kill the child if the job has not stopped after `grace` seconds."""
        if self._cancelled[0] != self._current_token:
            self._cancelled = (self._current_token, monotonic())
        if monotonic() >= self._cancelled[1] + grace:
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
        """Close its channel."""
        self.channel.close()

    @property
    def _current_token(self) -> UUID | None:
        current = self.current
        return None if current is None else current.token

    def _signal(self, reason: bytes, job: int | None) -> None:
        self._shared.name(reason, self._number, job)
        self._send(signal.SIGTERM)

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
    """Return the next received packet; empty without a packet, and after the end of the channel."""
    try:
        return end.recv(LARGEST_PACKET, socket.MSG_DONTWAIT)
    except (BlockingIOError, ConnectionResetError):
        return b""
