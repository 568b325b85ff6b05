"""Report to systemd, or to a probe, that a resident worker is ready, that its loop runs, and that it stops."""

import logging
import math
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Self

log = logging.getLogger(__name__)

FILE_EVERY = 5.0  # seconds between two touches of the file


class Liveness:
    """Reports to systemd by its notification socket, and to a probe by the age of a file, where there are any.

    The file is there while the worker is ready, and its time is that of the loop's last round. Whether the
    database answers is not part of it: a restart would not help.
    """

    def __init__(self, *, address: str = "", watchdog: float = math.inf, file: Path | None = None) -> None:
        """`watchdog` is after how many seconds of silence systemd ends this process."""
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._every = min(watchdog / 2, FILE_EVERY if file else math.inf)
        self._file = file
        self._ready = self._leaving = False
        self.due = math.inf  # when the loop has to report again at the latest

    @classmethod
    def of(cls, environment: MutableMapping[str, str], file: Path | None) -> Self:
        """Read systemd's variables and remove them, so that no started process reports in place of this process."""
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        environment.pop("WATCHDOG_PID", None)
        watchdog = int(microseconds) / 1e6 if address and microseconds.isdecimal() else math.inf
        return cls(address=address, watchdog=watchdog or math.inf, file=file)

    def ready(self) -> None:
        """Report, once, that this worker takes jobs; from now on `turn` has to be called."""
        if not self._ready:
            self._ready, self.due = True, -math.inf
            self._say("READY=1")
        self.turn()

    def turn(self) -> None:
        """Report that the loop runs, no more often than is needed."""
        if self._ready and monotonic() >= self.due:
            self.due = monotonic() + self._every
            self._say("WATCHDOG=1")
            self._touch()

    def leave(self) -> None:
        """Report, once, that this worker stops."""
        if not self._leaving:
            self._leaving = True
            self._say("STOPPING=1")

    def end(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _say(self, what: str) -> None:
        if not self._address:
            return
        # A socket that is full or gone must not stop the work.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
            channel.sendto(what.encode(), self._address)

    def _touch(self) -> None:
        if self._file is None:
            return
        try:
            self._file.touch()
        except OSError as error:
            log.warning("the liveness file %s could not be touched: %s", self._file, error)
