"""Answer a probe: does a resident worker's loop turn? It asks the worker's file, never the database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from turno.errors import TurnoError

if TYPE_CHECKING:
    from turno.settings import Settings

# A loop turns every few seconds; while the database swallows every question, once in about 40.
STUCK_AFTER = 60.0


class NotAlive(TurnoError):
    """No worker has said that it is ready, or its loop has not turned for long."""


def assert_alive(settings: Settings) -> None:
    """Print how old the last sign of life is; raises NotAlive."""
    file = Path(settings.require("alive_file").alive_file)
    try:
        age = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        raise NotAlive(f"no worker is ready: there is no {file}") from None
    if age > STUCK_AFTER:
        raise NotAlive(f"the worker is stuck or gone: its last sign of life in {file} is {age:.0f} s old")
    print(f"alive {max(age, 0):.0f} s ago")
