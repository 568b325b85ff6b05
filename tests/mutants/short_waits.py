"""Loaded into a mutant's pytest run: a condition that without its guard never holds is given up sooner.

The waits of a test allow for a crowded machine, and without its guard a test often waits to the end of one. Here a wait
is a quarter of that, and longer on a crowded machine: importing and collecting needs the processor alone, so the
difference to its own processor time measures the load of other processes. A run reports a wait that was cut short: its
failure counts only if the same test, with the same waits, passes while the guard is in place, or else if it fails with
whole waits, too.
"""

from __future__ import annotations

from time import monotonic, process_time
from typing import TYPE_CHECKING

import pytest

from turno.testing import wait

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_SECONDS = 6.0
SHARE = 0.25
CUT_SHORT = "a wait was cut short"

_wait_until = wait.wait_until
_began = monotonic(), process_time()
_crowded = [1.0]
_cut_short = [False]
_whole = [False]


def shortened(within: float, *, crowded: float) -> float:
    """Return the seconds that a mutant's test waits where it would wait for `within`."""
    return min(within, max(LEAST_SECONDS, within * SHARE) * crowded)


def wait_until(
    condition: Callable[[], bool], *, within: float, every: float = 0.02, crowded: Callable[[], float] = wait.crowding
) -> bool:
    """Return whether `condition` holds before the shortened time has passed."""
    if _whole[0]:
        return _wait_until(condition, within=within, every=every, crowded=crowded)
    seconds = shortened(within, crowded=_crowded[0])
    result = _wait_until(condition, within=seconds, every=every, crowded=lambda: 1.0)
    _cut_short[0] |= not result and seconds < within
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace `wait_until` before a test module, or a plugin that a conftest.py names, takes it from there."""
    wait.wait_until = wait_until


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take whether to wait as long as the tests say."""
    parser.addoption("--whole-waits", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    """Note it."""
    _whole[0] = config.getoption("--whole-waits")


def pytest_collection_finish() -> None:
    """Note how crowded the machine is."""
    passed, worked = monotonic() - _began[0], process_time() - _began[1]
    _crowded[0] = max(1.0, passed / max(worked, 0.1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it."""
    terminalreporter.write_line(f"waits were for {_crowded[0]:.1f} times as long as on an idle machine")
    if _cut_short[0]:
        terminalreporter.write_line(CUT_SHORT)
