"""How a child learns that it should stop, and why; and what its parent knows of its transaction."""

import mmap
import signal
import struct
from time import monotonic
from types import FrameType

from app.errors import TurnoError

_MOMENT = struct.Struct("d")


class HandBack(TurnoError):
    """Raised inside a handler at a safe place when its worker is stopping; let it pass."""


class StopRequest:
    """One byte that parent and child share, and the signal that makes the child look at it.

    Made before the fork. The parent names the reason, then sends SIGTERM; a SIGTERM from anyone else
    means a graceful stop too.
    """

    GRACEFUL, TIME_LIMIT = b"G", b"T"

    def __init__(self) -> None:
        self._reason = mmap.mmap(-1, 1)
        self._began = mmap.mmap(-1, _MOMENT.size)
        self._signalled = False

    def name(self, reason: bytes) -> None:
        """Say why the child is about to be signalled."""
        self._reason[0:1] = reason

    def withdraw(self) -> None:
        """In the parent: the next attempt starts with nothing asked of it."""
        self._reason[0:1] = b"\0"

    def forget(self) -> None:
        """In the child: a signal that came after the last attempt's end was meant for that one."""
        self._signalled = False

    def listen(self) -> None:
        """In the child: note SIGTERM instead of dying of it."""
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, _signum: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def transaction_begins(self) -> None:
        """In the child: tell the parent since when a transaction is open."""
        _MOMENT.pack_into(self._began, 0, monotonic())

    def transaction_ends(self) -> None:
        """In the child: tell the parent that none is open."""
        _MOMENT.pack_into(self._began, 0, 0.0)

    @property
    def in_transaction_since(self) -> float | None:
        """In the parent: by the monotonic clock, which all processes of a host share."""
        (moment,) = _MOMENT.unpack_from(self._began)
        return moment or None

    @property
    def requested(self) -> bool:
        """Say whether the attempt should stop at the next safe place."""
        return self._signalled

    @property
    def overdue(self) -> bool:
        """Say whether the time limit is the reason, so that handing back would be no answer."""
        return self._signalled and self._reason[0:1] == self.TIME_LIMIT
