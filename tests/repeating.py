"""Repeat a call again and again beside the test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, Thread
from typing import ClassVar, Self


class Repeating(ABC):
    """Calls `once` in a thread, `pause` seconds apart, from `with` to its end."""

    pause: ClassVar[float] = 0.02

    def __init__(self) -> None:
        self._over = Event()
        self._thread = Thread(target=self._repeat)

    @abstractmethod
    def once(self) -> None:
        """Do it once more."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._over.wait(self.pause):
            self.once()
