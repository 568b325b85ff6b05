"""A throw-away copy of this checkout, and pytest runs in it that see nothing of the original."""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from threading import local
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


class ForkServer:
    """A process that forks a pytest run a second faster than an interpreter could be started for it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Unbuffered: an answer that was read together with the one before would not be seen by select().
            bufsize=0,
            env=_inner(os.environ),
        )
        atexit.register(self._process.communicate)

    def run(self, tree: Path, arguments: Sequence[str], *, patience: float) -> Ended:
        """Run pytest in `tree`; one that does not end in `patience` seconds is killed and has no status."""
        output = tree.with_name("output.txt")
        environment = _inner(os.environ) | {"PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        request = {"tree": str(tree), "arguments": arguments, "environment": environment, "output": str(output)}
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps(request).encode() + b"\n")
        pid = int(answers.readline())
        late = not select.select([answers], [], [], patience)[0]
        if late:
            os.killpg(pid, signal.SIGKILL)
        status = int(answers.readline())
        return Ended(None if late else status, output.read_text(encoding="utf-8", errors="replace"))


def fork_server() -> ForkServer:
    """Return this thread's own, as it answers one request at a time; it ends when its standard input does."""
    if not hasattr(_OF_THREAD, "server"):
        _OF_THREAD.server = ForkServer()
    server: ForkServer = _OF_THREAD.server
    return server


_OF_THREAD = local()


def run_pytest(tree: Path, tests: Sequence[str], *, patience: float = PATIENCE) -> Ended:
    """Run these tests on the code of the copy, until the first failure."""
    # Only the plugins that these tests need: loading all of them takes longer than most tests.
    plugins = ["-p", "pytest_timeout", "-p", "tests.mutants.witness", f"--timeout={TEST_TIMEOUT}"]
    return fork_server().run(tree, ["-q", "-x", "-p", "no:cacheprovider", *plugins, *tests], patience=patience)


def _inner(outer: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in outer.items() if not name.startswith(OUTER_RUN)}
