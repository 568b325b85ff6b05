"""Named places where a test may end a process, to prove that nothing depends on passing them.

`TURNO_CRASH_AT=step[:process[:nth]]` sends SIGKILL at the nth time (from 1) a process reaches the step: to `self` (the
default), its `parent` or `both`. Unset, `reach` is `str`, which has no effect.
"""

import os
import signal
from collections.abc import Callable
from itertools import count


def _armed(spec: str) -> Callable[[str], None]:
    step, victim, nth = (*spec.split(":"), "", "")[:3]
    passed = count(1)

    def reach(name: str) -> None:
        if name != step or next(passed) != int(nth or 1):
            return
        parent = os.getppid()
        if victim in ("parent", "both"):
            os.kill(parent, signal.SIGKILL)
        if victim != "parent":
            os.kill(os.getpid(), signal.SIGKILL)

    return reach


reach: Callable[[str], object] = _armed(os.environ["TURNO_CRASH_AT"]) if "TURNO_CRASH_AT" in os.environ else str
