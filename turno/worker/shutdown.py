"""How a worker stops: after the first signal its jobs have a grace, the second ends them at once."""

import os
import signal
from time import monotonic
from types import FrameType


class Shutdown:
    """Remembers the signals; `wake_up` is readable when one has come."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._requested_at: float | None = None
        self._forced = False
        self.wake_up, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def listen(self) -> None:
        """Note SIGTERM and SIGINT from now on."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def ask(self) -> None:
        """Stop as after the first signal."""
        if self._requested_at is None:
            self._requested_at = monotonic()

    def clear(self) -> None:
        """Read the wake-up descriptor empty."""
        os.read(self.wake_up, 64)

    # Only flips variables; the wake-up descriptor ends the wait, and the loop acts.
    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._requested_at is not None:
            self._forced = True
            return
        self._requested_at = monotonic()

    @property
    def requested(self) -> bool:
        """Return whether this worker was ordered to stop."""
        return self._requested_at is not None

    @property
    def deadline(self) -> float | None:
        """Return when the grace ends, by the monotonic clock; None without an order to stop."""
        return None if self._requested_at is None else self._requested_at + self._grace

    @property
    def grace_over(self) -> bool:
        """Return whether the running jobs must end now."""
        return self.deadline is not None and (self._forced or monotonic() >= self.deadline)
