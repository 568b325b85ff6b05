"""How a child learns that it should stop, and why; and what its parent knows of its transaction."""

import mmap
import signal
import struct
from time import monotonic
from types import FrameType

from turno.errors import TurnoError

_REASON = struct.Struct("cq")
_MOMENT = struct.Struct("d")
SIZE = _REASON.size + _MOMENT.size


class HandBack(TurnoError):
    """Raised inside a handler at a safe place when its worker is stopping; let it pass."""


class StopRequest:
    """A reason that parent and child share, and the signal that makes the child look at it.

    The parent names the reason, and for which of the child's attempts, counted from 0, then sends SIGTERM; a SIGTERM
    from anyone else means a graceful stop of the present one.
    """

    GRACEFUL, TIME_LIMIT = b"G", b"T"

    def __init__(self, descriptor: int = -1) -> None:
        """Share the file of SIZE bytes that both have open; without any, share with forks of this process."""
        self._shared = mmap.mmap(descriptor, SIZE)
        self._signalled = False
        self._number = -1  # of the present attempt

    def name(self, reason: bytes, number: int) -> None:
        """In the parent: say why the child is about to be signalled, and that this attempt is meant."""
        _REASON.pack_into(self._shared, 0, reason, number)

    def begin(self) -> None:
        """In the child: the next attempt begins; only a stop of the whole worker concerns it, too."""
        self._number += 1
        self._signalled = self._named[0] == self.GRACEFUL
        self.transaction_ends()

    def listen(self) -> None:
        """In the child: note SIGTERM instead of dying of it."""
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, _signum: int, _frame: FrameType | None) -> None:
        # The time limit of an attempt that has just ended is nothing to the one after it.
        reason, number = self._named
        self._signalled = self._signalled or reason != self.TIME_LIMIT or number == self._number

    @property
    def _named(self) -> tuple[bytes, int]:
        reason, number = _REASON.unpack_from(self._shared)
        return reason, number

    def transaction_begins(self) -> None:
        """In the child: tell the parent since when a transaction is open."""
        _MOMENT.pack_into(self._shared, _REASON.size, monotonic())

    def transaction_ends(self) -> None:
        """In the child: tell the parent that none is open."""
        _MOMENT.pack_into(self._shared, _REASON.size, 0.0)

    @property
    def in_transaction_since(self) -> float | None:
        """In the parent: by the monotonic clock, which all processes of a host share."""
        (moment,) = _MOMENT.unpack_from(self._shared, _REASON.size)
        return moment or None

    @property
    def requested(self) -> bool:
        """Say whether the attempt should stop at the next safe place."""
        return self._signalled

    @property
    def overdue(self) -> bool:
        """Say whether the time limit is the reason, so that handing back would be no answer."""
        return self._signalled and self._named == (self.TIME_LIMIT, self._number)
