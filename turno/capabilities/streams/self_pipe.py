"""A self-pipe: wakes a selector from another thread."""

import os
from contextlib import suppress


class SelfPipe:
    """A pipe that is readable from `set` to `clear`, so that a thread can wait for it beside its sockets."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._is_set = False

    def fileno(self) -> int:
        """Return the descriptor to give to the selector."""
        return self._read

    def set(self) -> None:
        """Wake the waiting thread. Put what it is to find where it looks before calling this."""
        if not self._is_set:
            self._is_set = True
            os.write(self._write, b"!")

    def clear(self) -> None:
        """Make the pipe unreadable again. Look for work only afterwards, or a `set` in between is lost."""
        with suppress(BlockingIOError):
            os.read(self._read, 4096)
        # After the read: a `set` between the two lines would be read away and still count as set.
        self._is_set = False

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read)
        os.close(self._write)
