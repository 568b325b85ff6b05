"""Call many at once, and wait for none longer than for all."""

from collections.abc import Callable, Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TypeVar

K = TypeVar("K")


def outcomes_of(calls: Mapping[K, Callable[[], object]], *, within: float) -> Iterator[tuple[K, Exception | None]]:
    """Yield what became of each call as it is known; who is silent after `within` seconds counts as timed out."""
    told = SimpleQueue[tuple[K, Exception | None]]()

    def run(key: K, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever a receiver makes of it: it is told and tried again
            told.put((key, error))
        else:
            told.put((key, None))

    for key, call in calls.items():
        Thread(target=run, args=(key, call), daemon=True, name="outside").start()
    over, silent = monotonic() + within, set(calls)
    while silent:
        try:
            key, error = told.get(timeout=max(0.0, over - monotonic()))
        except Empty:
            break
        silent.discard(key)
        yield key, error
    for key in sorted(silent, key=str):
        yield key, TimeoutError(f"no answer within {within:g} s")


def in_words(error: Exception | None) -> str | None:
    """Return what went wrong on one line; an address, which may have a password in it, is not repeated."""
    if error is None:
        return None
    said, _, _ = str(error).partition("\n")
    return f"{type(error).__name__}: {said}"
