"""The environment of mutants: a copy of this checkout, a PostgreSQL server, and a process with forks that run pytest.

All three are made once and serve one run after another. Copying the checkout, copying and starting a server, and
starting an interpreter took two thirds of a mutant's time when each had its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, Self, cast

from cli.servers.postgres_binaries import find_binaries
from tests.api import a_service
from tests.cloned_database import cloned_database
from tests.installation import EXAMPLES, clone_example
from tests.mutants.copied_tree import copied_tree
from tests.quick_servers import quick_server
from turno.testing import processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from tests.mutants.mutant import Mutant

TEST_TIMEOUT = 150  # seconds: longer than the longest wait of a test, or that wait would never be seen to fail
PATIENCE = 180
# Only the plugins that these tests need: loading all of them takes longer than most tests.
PLUGINS = (
    *("-p", "no:cacheprovider"),
    *("-p", "pytest_timeout"),
    *("-p", "tests.mutants.witness"),
    *("-p", "tests.mutants.short_waits"),
)
# A template of an example was made with every guard in place. Building on its clone defines all functions again, but
# neither repeats the steps of a schema nor everything that tenancy does: without a guard of these, a run builds anew.
TENANCY, STEPS = "turno/tenancy/", "/schema/"
# Variables that would make an inner run part of the outer one: its coverage, its xdist worker, its crash point.
OUTER_RUN = ("COV_", "COVERAGE_", "PYTEST_", "TURNO_")
# In the copy every module is found there, and compiled once.
OF_OUR_OWN = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


class Ended(NamedTuple):
    """How a pytest run ended; without a status it did not end in time."""

    status: int | None
    output: str


class PreparedCheckout:
    """Runs pytest on a copy of this checkout, never two runs together; leave it by `with`, which removes everything."""

    def __init__(self) -> None:
        self._moments = count(1)
        self._changed = ""
        with ExitStack() as stack:
            self.tree = stack.enter_context(copied_tree())
            self._cluster = stack.enter_context(quick_server(find_binaries()))
            # From now on each template is on the server.
            for name in EXAMPLES:
                with clone_example(self._cluster, self.tree.parent, name):
                    pass
            with cloned_database(self._cluster, "service", a_service):
                pass
            self._forks = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    # Unbuffered: select() would not see an answer that was read together with its predecessor.
                    bufsize=0,
                    cwd=self.tree,
                    env=_inner(os.environ, self.tree),
                )
            )
            assert int(cast("IO[bytes]", self._forks.stdout).readline()) == self._forks.pid, (
                "it imported no application"
            )
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @contextmanager
    def without_guard(self, mutant: Mutant) -> Iterator[None]:
        """Take the mutant's guard away in the copy, and put it back; raises GuardNotFound."""
        path = self.tree / mutant.file
        whole = path.read_text(encoding="utf-8")
        written = path.stat().st_mtime_ns
        path.write_text(mutant.without_guard(whole), encoding="utf-8")
        # A compiled module is taken if the source is as long and as old, in whole seconds, as when it was compiled.
        os.utime(path, (next(self._moments),) * 2)
        self._changed = mutant.file
        try:
            yield
        finally:
            self._changed = ""
            path.write_text(whole, encoding="utf-8")
            os.utime(path, ns=(written, written))

    def run(self, tests: Sequence[str], *, patience: float = PATIENCE, whole_waits: bool = False) -> Ended:
        """Run these tests on the copy until the first failure; a run longer than `patience` seconds is killed."""
        output = self.tree.with_name("output.txt")
        # A traceback with the lines around each call takes a tenth of a run: it reads and parses each source.
        arguments = ["-q", "-x", "--tb=native", *PLUGINS, f"--timeout={TEST_TIMEOUT}", *tests]
        builds_anew = self._changed.startswith(TENANCY) or STEPS in self._changed
        arguments += [] if builds_anew else [f"--server={self._cluster.data}"]
        arguments += ["--as-built"] if is_outside_database(self._changed) else []
        arguments += ["--whole-waits"] if whole_waits else []
        requests, answers = cast("IO[bytes]", self._forks.stdin), cast("IO[bytes]", self._forks.stdout)
        request = {"arguments": arguments, "output": str(output), "changed": self._changed}
        requests.write(json.dumps(request).encode() + b"\n")
        pid = int(answers.readline())
        late = not select.select([answers], [], [], patience)[0]
        if late:
            os.killpg(pid, signal.SIGKILL)
        status = int(answers.readline())
        # Without its guard a worker's child may outlive the test, and would take a core until the machine is off.
        processes.kill(*(pid for pid in processes.working_in(self.tree) if pid != self._forks.pid))
        return Ended(None if late else status, output.read_text(encoding="utf-8", errors="replace"))


def is_outside_database(changed: str) -> bool:
    """Return whether no database differs from its template; declarations of capabilities contain rights."""
    return changed.endswith(".py") and not changed.endswith("/capability.py")


def _inner(outer: Mapping[str, str], tree: Path) -> dict[str, str]:
    kept = {name: value for name, value in outer.items() if not name.startswith((*OUTER_RUN, *OF_OUR_OWN))}
    return kept | {"PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
