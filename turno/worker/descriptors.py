"""What a supervisor waits for: descriptors, each with what is called once it is readable."""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import FileDescriptorLike


class Descriptors:
    """Waits for any of its descriptors, then calls what belongs to those that are readable."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def add(self, descriptor: FileDescriptorLike, call: Callable[[], object]) -> None:
        """Have this called whenever the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def remove(self, descriptor: FileDescriptorLike) -> None:
        """Wait for it no more; before it is closed."""
        self._selector.unregister(descriptor)

    def wait(self, seconds: float, hints: int | None, read_hints: Callable[[], object]) -> None:
        """Wait for so long at most, for the descriptor of `hints` as well, if there is one.

        That one is added for this wait alone: its connection may be replaced before the next, and its number be that of
        the new one, or of a child. Whatever is a socket comes before numbers: a child that has reported its last job
        and ended is not taken for one that died with it.
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
