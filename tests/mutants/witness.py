"""Loaded into a mutant's pytest run: a failure counts only if a test failed, and on the copied code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

ROOMS = {"cli", "handlers", "nemesis", "tests", "turno"}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Call a run broken that failed in a fixture only, or that used code from outside the copy."""
    reporter: TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    # The reporter counts what failed outside a test's own code as an error.
    only_errors = "failed" not in reporter.stats
    if strangers := _imported_from_elsewhere():
        reporter.write_line(f"not from the copy: {', '.join(strangers)}")
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
    elif session.exitstatus == pytest.ExitCode.TESTS_FAILED and only_errors:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def _imported_from_elsewhere() -> list[str]:
    here = Path.cwd()
    return [
        name
        for name, module in sys.modules.items()
        if name.split(".")[0] in ROOMS and module.__file__ and not Path(module.__file__).is_relative_to(here)
    ]
