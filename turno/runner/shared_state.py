"""The memory that a child shares with its parent: the present job, the taken back jobs, and the reason to stop."""

import mmap
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from types import FrameType

from turno.runner import line_ring
from turno.runner.line_ring import LineRing

# Words of eight bytes: each is written by only one of the two processes, in one machine operation.
REASON, REASON_FOR, CALLED_BACK, BATCH, FURTHEST, AT_WORK, SINCE, TRANSACTION, BACKEND = range(9)
WORDS = 9 * 8  # bytes
SIZE = WORDS + line_ring.SIZE
NOWHERE = -1
NS = 1e9


class SharedState:
    """The place of a child within its batch, and a reason to stop, which a signal makes the child read.

    Batches are counted from 1, jobs within one from 0. The parent names the reason, and for which job, then sends
    SIGTERM; a SIGTERM of another process means a graceful stop of the present job.

    Taking jobs back: the parent writes the number of the batch, then reads the child's position; the child writes its
    position, then reads the number. If both want the same job, the child always reads the parent's number.
    """

    GRACEFUL, TIME_LIMIT = b"G", b"T"

    def __init__(self, descriptor: int = -1) -> None:
        """Share the open file of SIZE bytes; without a descriptor, share memory with forks of this process."""
        memory = memoryview(mmap.mmap(descriptor, SIZE))
        self._words = memory[:WORDS].cast("q")
        self.lines = LineRing(memory[WORDS:])
        self._signalled = False

    # In the parent ---------------------------------------------------------------------------

    def name(self, reason: bytes, batch: int, job: int | None) -> None:
        """Set the reason of the next signal, and the job that it concerns; None between two jobs."""
        self._words[REASON_FOR] = _position(batch, 0 if job is None else job + 1)
        self._words[REASON] = ord(reason)

    def call_back(self, batch: int) -> int:
        """Take back the rest of this batch; returns the last job that the child may have begun, -1 for none."""
        self._words[CALLED_BACK] = batch + 1
        return self.furthest(batch)

    def furthest(self, batch: int) -> int:
        """Return the last job of this batch that the child may have begun, -1 for none."""
        return self._words[FURTHEST] if self._words[BATCH] == batch else NOWHERE

    def at_work(self, batch: int) -> int | None:
        """Return the job of this batch with a running handler; None between two jobs."""
        at = self._words[AT_WORK]
        return at - 1 if at and self._words[BATCH] == batch else None

    @property
    def since(self) -> float:
        """The begin of the child's present work, by the monotonic clock, which all processes of a host share."""
        return self._words[SINCE] / NS

    @property
    def in_transaction_since(self) -> float | None:
        """The begin of the child's open transaction; None without one."""
        return self._words[TRANSACTION] / NS or None

    @property
    def backend(self) -> int:
        """Return the process of the server that works for the child's transaction."""
        return self._words[BACKEND]

    # In the child ----------------------------------------------------------------------------

    def next_batch(self) -> None:
        """Begin another batch; of earlier reasons only a stop of the worker remains valid."""
        self._words[AT_WORK] = 0
        self._words[FURTHEST] = NOWHERE
        self._words[SINCE] = monotonic_ns()
        self._words[BATCH] += 1
        self._reset()

    def begins(self, job: int) -> bool:
        """Say that this job is next; false if it may not be begun: it was called back, or its worker stops."""
        self._words[FURTHEST] = max(job, self._words[FURTHEST])
        return self._words[CALLED_BACK] <= self._words[BATCH] and not self.requested

    def works(self, job: int) -> None:
        """Say that a handler is at work for this job from now on: if the process dies, this job is blamed."""
        self._words[SINCE] = monotonic_ns()
        self._words[AT_WORK] = job + 1
        self._reset()

    def rests(self) -> None:
        """Say that no handler is at work."""
        self._words[AT_WORK] = 0

    @property
    def batch(self) -> int:
        """Return the number of this process's batch."""
        return self._words[BATCH]

    def listen(self) -> None:
        """Note SIGTERM instead of dying of it."""
        signal.signal(signal.SIGTERM, self._note)

    def transaction_begins(self, backend: int = 0) -> None:
        """Say since when a transaction is open, and which process of the server works for it."""
        self._words[BACKEND] = backend
        self._words[TRANSACTION] = monotonic_ns()

    def transaction_ends(self) -> None:
        """Say that none is open."""
        self._words[TRANSACTION] = 0

    @property
    def requested(self) -> bool:
        """Say whether the attempt should stop at the next safe place."""
        return self._signalled

    @property
    def overdue(self) -> bool:
        """Say whether the time limit is the reason, so that the job is not to be handed back."""
        return self._signalled and self._words[REASON] == ord(self.TIME_LIMIT) and self._meant

    def _reset(self) -> None:
        self._signalled = self._words[REASON] == ord(self.GRACEFUL)

    def _note(self, _signum: int, _frame: FrameType | None) -> None:
        # The time limit of a job that has just ended does not concern the next job.
        self._signalled = self._signalled or self._words[REASON] != ord(self.TIME_LIMIT) or self._meant

    @property
    def _meant(self) -> bool:
        return self._words[REASON_FOR] == _position(self._words[BATCH], self._words[AT_WORK])


def _position(batch: int, at_work: int) -> int:
    return batch << 16 | at_work


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCallbacks:
    """The state shared with the parent, and the functions of the child that the executor calls.

    `progressed` is called when people can see a change of the job, `started` when a transaction is open for jobs,
    `tidy` after each call of a handler.
    """

    shared: SharedState = field(default_factory=SharedState)
    progressed: Callable[[], None] = lambda: None
    started: Callable[[], None] = lambda: None
    tidy: Callable[[], None] = lambda: None
