"""The loop that delivers messages to outside receivers: a thread for each call, one deadline for all."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TypeVar

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
    that has not ended `within` seconds of the start has a TimeoutError. The threads end with the process.
    """
    began, in_flight = monotonic(), set[K]()
    ends = SimpleQueue[tuple[K, Exception | None]]()

    def start() -> None:
        for key, call in due(in_flight):
            in_flight.add(key)
            Thread(target=_run, args=(ends, key, call), daemon=True, name="outside").start()

    def record_ended(until: float) -> int:
        """Record the ended calls; wait for the first at most until a moment of the monotonic clock."""
        delivered, wait = 0, max(0.0, until - monotonic())
        with suppress(Empty):
            while in_flight:
                key, error = ends.get(timeout=wait)
                in_flight.discard(key)
                wait = 0.0
                delivered += record(key, error)
        return delivered

    start()
    delivered = 0
    while in_flight and monotonic() < began + taking:
        delivered += record_ended(began + taking)
        if monotonic() < began + taking:
            start()
    while in_flight and monotonic() < began + within:
        delivered += record_ended(began + within)
    late = TimeoutError("the receiver did not answer in time")
    return delivered + sum(record(key, late) for key in sorted(in_flight, key=str))


def _run(ends: SimpleQueue[tuple[K, Exception | None]], key: K, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any error of a receiver is recorded, and the call repeated
        ends.put((key, error))
    else:
        ends.put((key, None))


def in_words(error: Exception) -> str:
    """Return an error on one line: its class and the first line of its message."""
    first_line, _, _ = str(error).partition("\n")
    return f"{type(error).__name__}: {first_line}"
