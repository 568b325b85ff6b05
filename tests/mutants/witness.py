"""Loaded into a mutant's pytest run: a failure counts only if a test failed, on the copied code, and this could run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

PACKAGES = {"app", "cli", "handlers", "imports", "nemesis", "reports", "tax_authority", "tenants", "tests", "turno"}


# The errors of a mutant that cannot run, in any test; they prove nothing about the guard.
CANNOT_RUN = (ImportError, NameError, SyntaxError)
UNABLE = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the data folder of the server for this run, else the run starts its own, and whether templates are valid."""
    parser.addoption("--server")
    parser.addoption("--as-built", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    """Put databases on that server. Fixtures registered here win over the fixtures of every conftest.py."""
    if config.getoption("--server"):
        from tests.mutants import server_fixtures  # noqa: PLC0415 - registered late, and only in such a run

        config.pluginmanager.register(server_fixtures)
    config.stash[UNABLE] = []


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Record an error that was raised because code of the copy could not run."""
    if call.excinfo and isinstance(call.excinfo.value, CANNOT_RUN):
        frames = [entry for entry in call.excinfo.traceback if not str(entry.path).startswith("<frozen importlib")]
        # A module that is looked for by its name, as a handler is, may well be missing: that is raised elsewhere.
        if isinstance(call.excinfo.value, SyntaxError) or Path(frames[-1].path).is_relative_to(Path.cwd()):
            node.config.stash[UNABLE].append(call.excinfo.exconly())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Call a run broken that failed in a fixture only, in code that cannot run, or that used code not of the copy."""
    reporter: TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    # The reporter counts failures outside a test's own code as errors.
    only_errors = "failed" not in reporter.stats
    reasons = session.config.stash[UNABLE] + [f"not from the copy: {name}" for name in _imported_from_elsewhere()]
    for reason in reasons:
        reporter.write_line(f"says nothing: {reason}")
    if reasons or (session.exitstatus == pytest.ExitCode.TESTS_FAILED and only_errors):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def _imported_from_elsewhere() -> list[str]:
    root = Path.cwd()
    return [
        name
        for name, module in sys.modules.items()
        if name.split(".")[0] in PACKAGES and module.__file__ and not Path(module.__file__).is_relative_to(root)
    ]
