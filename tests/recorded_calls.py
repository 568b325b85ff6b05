"""Calls, executed lines of the library and messages to the database."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LIBRARY = Path(__file__).resolve().parents[1] / "turno"
MESSAGES = {"Cursor.execute", "Pipeline.send"}


@dataclass
class Recorded:
    """The library's files with called functions, and the numbers of calls, of executed lines and of messages."""

    files: set[str] = field(default_factory=set)
    calls: int = 0
    lines: int = 0
    messages: int = 0

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        self.calls += event in {"call", "c_call"}
        self.messages += event == "call" and code.co_qualname in MESSAGES
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(LIBRARY)):
            self.files.add(str(Path(code.co_filename).relative_to(LIBRARY)))

    def trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        self.lines += event == "line"
        return self.trace if frame.f_code.co_filename.startswith(str(LIBRARY)) else None


def start(recorded: Recorded) -> None:
    """Record this thread and later ones; a tracer that already runs, such as coverage's, stops."""
    for module in (threading, sys):
        module.settrace(recorded.trace)
        module.setprofile(recorded.note)


@contextmanager
def recorded() -> Iterator[Recorded]:
    """Record the calls of the block."""
    result, before = Recorded(), sys.gettrace()
    start(result)
    try:
        yield result
    finally:
        for module in (sys, threading):
            module.setprofile(None)
            module.settrace(before)
