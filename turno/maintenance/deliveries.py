"""The loop that delivers messages to outside receivers: a thread for each call, one deadline for all."""

from collections.abc import Callable, Collection, Iterable, Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Generic, TypeVar

K = TypeVar("K")


def deliver(
    due: Callable[[Collection[K]], Iterable[tuple[K, Callable[[], object]]]],
    record: Callable[[K, Exception | None], bool],
    *,
    within: float,
    taking: float = 0.0,
) -> int:
    """Start the due calls and record each end with its error; returns the number of ends for which `record` is true.

    `due` receives the keys in flight and returns further calls: once, and after each end for `taking` seconds. A call
    that has not ended `within` seconds of the start has a TimeoutError.
    """
    began, calls = monotonic(), _Calls[K]()
    calls.start(due(calls.in_flight))
    delivered = 0
    while calls.in_flight and monotonic() < began + taking:
        delivered += sum(record(*end) for end in calls.ended(began + taking))
        if monotonic() < began + taking:
            calls.start(due(calls.in_flight))
    return delivered + sum(record(*end) for end in calls.all_ended(began + within))


def in_words(error: Exception) -> str:
    """Return an error on one line: its class and the first line of its message."""
    first_line, _, _ = str(error).partition("\n")
    return f"{type(error).__name__}: {first_line}"


class _Calls(Generic[K]):
    """The calls in flight, by key."""

    def __init__(self) -> None:
        self._ends = SimpleQueue[tuple[K, Exception | None]]()
        self.in_flight = set[K]()

    def start(self, due: Iterable[tuple[K, Callable[[], object]]]) -> None:
        """Start the calls; their threads end with the process."""
        for key, call in due:
            self.in_flight.add(key)
            Thread(target=self._run, args=(key, call), daemon=True, name="outside").start()

    def ended(self, until: float) -> Iterator[tuple[K, Exception | None]]:
        """Yield the ended calls with their errors; wait for the first at most until a moment of the monotonic clock."""
        wait = max(0.0, until - monotonic())
        while self.in_flight:
            try:
                key, error = self._ends.get(timeout=wait)
            except Empty:
                return
            self.in_flight.discard(key)
            wait = 0.0
            yield key, error

    def all_ended(self, until: float) -> Iterator[tuple[K, Exception | None]]:
        """Yield every call with its error; calls that have not ended by then have a TimeoutError."""
        while self.in_flight and monotonic() < until:
            yield from self.ended(until)
        for key in sorted(self.in_flight, key=str):
            yield key, TimeoutError("the receiver did not answer in time")

    def _run(self, key: K, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - any error of a receiver is recorded, and the call repeated
            self._ends.put((key, error))
        else:
            self._ends.put((key, None))
