"""Answer a liveness probe from the age of a resident worker's file, without a database query."""

import time
from pathlib import Path

from turno.commands.output.results import print_message
from turno.errors import TurnoError
from turno.settings import Settings

# A worker touches the file every few seconds; while the database answers nothing, once in about 40 s.
STUCK_AFTER = 60.0


class NotAlive(TurnoError):
    """There is no TURNO_ALIVE_FILE yet, or the worker has not touched it for STUCK_AFTER seconds."""


def assert_alive(settings: Settings) -> None:
    """Print how old the last sign of life is; raises NotAlive."""
    file = Path(settings.require("alive_file").alive_file)
    try:
        age = time.time() - file.stat().st_mtime
    except FileNotFoundError:
        raise NotAlive(
            f"no worker is ready: there is no {file}; see the worker's log, and its TURNO_ALIVE_FILE"
        ) from None
    if age > STUCK_AFTER:
        raise NotAlive(f"the worker is stuck or gone: its last sign of life in {file} is {age:.0f} s old; restart it")
    print_message(f"alive {max(age, 0):.0f} s ago")
