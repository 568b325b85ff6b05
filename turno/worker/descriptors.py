"""The descriptors for which a supervisor waits, each with the function to call when it is readable."""

import selectors
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


class Descriptors:
    """Waits for its descriptors, then calls the functions of the readable descriptors."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, descriptor: "FileDescriptorLike", call: Callable[[], object]) -> None:
        """Have this called whenever the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def remove(self, descriptor: "FileDescriptorLike") -> None:
        """Wait for it no more; before it is closed."""
        self._selector.unregister(descriptor)

    def wait(self, seconds: float, hints: int | None, read_hints: Callable[[], object]) -> None:
        """Wait for so long at most, for the descriptor of `hints` as well, if there is one.

        The descriptor of `hints` is added for this wait only: before the next wait its connection may be replaced, and
        the number reused for the new connection or for a child. Sockets precede process descriptors: the last report of
        a child is read before its exit.
        """
        if hints is not None:
            self.add(hints, read_hints)
        try:
            readable = self._selector.select(seconds)
        finally:
            if hints is not None:
                self.remove(hints)
        for key, _ in sorted(readable, key=lambda event: isinstance(event[0].fileobj, int)):
            key.data()

    def close(self) -> None:
        """Wait for nothing more."""
        self._selector.close()
