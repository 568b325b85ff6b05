"""A limit of requests per minute, in the only process that calls the authority for a branch."""

from time import monotonic, sleep


class Pace:
    """Waits before a request until the minimum distance to the previous request has passed."""

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
