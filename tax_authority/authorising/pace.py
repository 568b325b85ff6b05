"""So many requests a minute and no more, from the one process that asks for a branch."""

from time import monotonic, sleep


class Pace:
    """Waits before a request until it keeps its distance from the one before."""

    def __init__(self, per_minute: int) -> None:
        """Keep the distance in seconds."""
        self._apart = 60.0 / per_minute
        self._next = 0.0

    def wait(self) -> None:
        """Return when a request may be made."""
        left = self._next - monotonic()
        if left > 0:
            sleep(left)
        self._next = monotonic() + self._apart
