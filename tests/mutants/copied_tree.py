"""A throw-away copy of this checkout, and pytest runs in it that see nothing of the original."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_COPIED = shutil.ignore_patterns(".*", "benchmarks", "dist")
TEST_TIMEOUT = 60
# What would make an inner run part of the outer one: its coverage, its xdist worker, its crash point.
OUTER_RUN = ("COV_", "COVERAGE_", "PYTEST_", "TURNO_", "PYTHONPATH")
PATIENCE = 90


class Ended(NamedTuple):
    """How a pytest run ended; without a status it did not end in time."""

    status: int | None
    output: str


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Give a copy of the tracked tree, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="turno-mutant-") as folder:
        tree = Path(folder).resolve() / "tree"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
        yield tree


def run_pytest(tree: Path, tests: Sequence[str], *, patience: float = PATIENCE) -> Ended:
    """Run these tests on the code of the copy, until the first failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    # Only the plugins that these tests need: loading all of them takes longer than most tests.
    plugins = ["-p", "pytest_timeout", "-p", "tests.mutants.witness", f"--timeout={TEST_TIMEOUT}"]
    with subprocess.Popen(
        [*command, *plugins, *tests],
        cwd=tree,
        env=_environment(tree, os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return Ended(None, output)
    return Ended(process.returncode, output)


def _environment(tree: Path, outer: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in outer.items() if not name.startswith(OUTER_RUN)}
    return kept | {"PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
