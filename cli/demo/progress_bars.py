"""Show how far work is: bars redrawn in place on a terminal, plain lines anywhere else."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from turno.commands.output import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

BAR_WIDTH = 30
# A piped line is written each time a bar has come this much further.
STEPS = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """The progress of one step: its label, its completed share, and a note."""

    label: str
    done: int
    total: int
    note: str = ""

    @property
    def numbers(self) -> str:
        """How far it is, such as `120/500`."""
        return f"{self.done}/{self.total}"


class Bars(Protocol):
    """Shows the same bars again and again as they grow."""

    def show(self, bars: Sequence[Bar]) -> None:
        """Show how the bars stand now."""


def bars_on(out: TextIO | None = None) -> Bars:
    """Return bars for a stream: live ones on a terminal."""
    out = out or sys.stdout
    return LiveBars(out) if out.isatty() else PlainBars(out)


class LiveBars:
    """Redraws its lines in place."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawn = 0

    def show(self, bars: Sequence[Bar]) -> None:
        """Write over the lines of the last time."""
        width = shutil.get_terminal_size().columns
        full, empty = ("█", "░") if "utf" in (self._out.encoding or "").lower() else ("#", ".")
        aligned = max((len(bar.label) for bar in bars), default=0)
        back = f"\x1b[{self._drawn}A" if self._drawn else ""
        lines = [f"\x1b[2K{shortened(drawn(bar, aligned, full, empty), width - 1)}\n" for bar in bars]
        self._out.write(back + "".join(lines))
        self._out.flush()
        self._drawn = len(bars)


class PlainBars:
    """Writes a line when a bar has come a step further or its note has changed."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._printed: dict[str, tuple[int, str]] = {}

    def show(self, bars: Sequence[Bar]) -> None:
        """Write the lines that have changed."""
        for bar in bars:
            state = (STEPS * bar.done // bar.total if bar.total else 0, bar.note)
            if self._printed.get(bar.label) != state:
                self._printed[bar.label] = state
                self._out.write(f"{bar.label} {bar.numbers} {bar.note}".rstrip() + "\n")
        self._out.flush()


def drawn(bar: Bar, aligned: int, full: str, empty: str) -> str:
    """Return a bar as one line; `aligned` is the width of the widest label."""
    filled = BAR_WIDTH * bar.done // bar.total if bar.total else 0
    line = f"{bar.label.ljust(aligned)}  {full * filled}{empty * (BAR_WIDTH - filled)}  {bar.numbers:>9}  {bar.note}"
    return line.rstrip()
