"""Find and end the processes of a demo, including survivors: each process carries the demo's folder as a mark."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "DEMO_MARK"
VISIBLE = "TURNO_VISIBLE"  # keeps /proc/PID/environ readable: turno/environment.py
PROCESSES = Path("/proc")
# A shell that has read the demo's variables carries the mark too, and is not ours to end.
OURS = (b"turno.commands.",)


def marks(value: str) -> dict[str, str]:
    """Return the variables that mark a process and keep its environment readable."""
    return {MARK: value, VISIBLE: "yes"}


def marked_with(value: str) -> list[int]:
    """Return the pids of our programs that were started with this mark, this process left out."""
    mark = f"{MARK}={value}".encode()
    pids: list[int] = []
    for entry in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            ours = any(word in (entry / "cmdline").read_bytes() for word in OURS)
            if ours and mark in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return [pid for pid in pids if pid != os.getpid()]


def end_marked(value: str, *, patience: float) -> None:
    """Leave no process with this mark: ask, wait up to `patience` seconds, then kill."""
    _signal(marked_with(value), signal.SIGTERM)

    def gone() -> bool:
        return not marked_with(value)

    def killed() -> bool:
        _signal(marked_with(value), signal.SIGKILL)
        return gone()

    if not wait_until(gone, within=patience):
        wait_until(killed, within=10)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
