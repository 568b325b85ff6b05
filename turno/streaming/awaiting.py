"""A request that waits for its job's end: it is answered once, by then or when its time is over."""

from threading import Event
from time import time
from typing import TYPE_CHECKING, Any

from turno.streaming.subscriber import CloseReason, State, Subscriber, View

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]


class Awaiting(Subscriber):
    """Is handed rows instead of states, and turns the last one into its one answer, whatever ended the wait.

    `answer` returns the bytes of the answer, for the loop that sends it.
    """

    __slots__ = ("answer", "row")
    streams = False

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.row: Row | None = None
        self.answer: Callable[[], bytes] = bytes

    def see(self, row: Row) -> None:
        """Take the job's row, unless a later one is here."""
        with self._lock:
            if self.row is None or row["revision"] >= self.row["revision"]:
                self.row = row

    def offer(self, state: State) -> None:
        """Do nothing: there is one answer, at the end."""

    def take(self) -> tuple[list[bytes], CloseReason | None]:
        """Return nothing before the end, and then the answer."""
        _, reason = super().take()
        return ([] if reason is None else [self.answer()]), reason

    def wait(self) -> None:
        """Return at the end, or when the time is over: for servers that give each request a thread."""
        told = Event()
        self.wake = lambda _subscriber: told.set()
        if super().take()[1] is None:
            told.wait(max(0.0, self.view.until - time()))
