"""End another thread's wait."""

import os
from contextlib import suppress


class SelfPipe:
    """A pipe that becomes readable when somebody rings, until it was heard."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._rung = False

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._read

    def ring(self) -> None:
        """End the wait. Whatever is to be found then was put there before."""
        if not self._rung:
            self._rung = True
            os.write(self._write, b"!")

    def hear(self) -> None:
        """Forget what was rung so far; look only afterwards for what was put there."""
        with suppress(BlockingIOError):
            os.read(self._read, 4096)
        # Last: a ring between the two would be read away and still count as rung.
        self._rung = False

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._read)
        os.close(self._write)
