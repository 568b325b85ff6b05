"""A request that waits for the end of its job."""

import asyncio
from contextlib import suppress
from time import time
from typing import Any

from turno.capabilities.streams.subscriber import State, Subscriber, View

Row = dict[str, Any]


class Awaiting(Subscriber):
    """Keeps the latest row of its job in place of states."""

    __slots__ = ("row",)

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.row: Row | None = None

    def see(self, row: Row) -> None:
        """Keep the job's row, unless a later one is known."""
        with self._lock:
            if self.row is None or row["revision"] >= self.row["revision"]:
                self.row = row

    def offer(self, state: State) -> None:
        """Do nothing: the response has one state, the last."""

    def wait(self) -> None:
        """Return at the end of the job or of the time."""
        woken = self.wakes_thread()
        while self.take()[1] is None and woken.wait(max(0.0, self.view.until - time())):
            woken.clear()

    async def wait_in_task(self) -> None:
        """Return at the end of the job or of the time, without a thread."""
        woken = self.wakes_task()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self.view.until - time())):
                while self.take()[1] is None:
                    await woken.wait()
                    woken.clear()
