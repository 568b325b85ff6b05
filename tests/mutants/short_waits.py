"""Loaded into a mutant's pytest run: a condition that without its guard never holds is given up sooner.

The waits of a test allow for a crowded machine, and without its guard a test often waits to the end of one. The same
tests run with the same shortened waits while every guard is in place, and must pass: so a wait that is too short for a
test is found there, and is not taken for a guard that was missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turno.servers import wait

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_SECONDS = 6.0
SHARE = 0.25

_wait_until = wait.wait_until


def shortened(within: float) -> float:
    """Return the seconds that a mutant's test waits where it would wait for `within`."""
    return min(within, max(LEAST_SECONDS, within * SHARE))


def wait_until(condition: Callable[[], bool], *, within: float, every: float = 0.02) -> bool:
    """Return whether `condition` holds before the shortened time has passed."""
    return _wait_until(condition, within=shortened(within), every=every)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Replace `wait_until` before a test module, or a plugin that a conftest.py names, takes it from there."""
    wait.wait_until = wait_until
