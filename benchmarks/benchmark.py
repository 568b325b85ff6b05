"""What every benchmark is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.report import Report


@dataclass(frozen=True, slots=True)
class Options:
    """How thorough to be, and whether to bring other systems in."""

    quick: bool = False
    peers: bool = False

    @property
    def seconds(self) -> float:
        """How long sampling may go on at most, on however busy a machine."""
        return 20.0 if self.quick else 120.0


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A sentence about what is measured, and the measuring."""

    about: str
    run: Callable[[Options], Report]
