from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.servers.postgres_files import processes_in
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[3]


@contextmanager
def run_pytest(folder: Path, source: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start pytest on a separate file, with our plugins and in a separate process group."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest",
            *("-p", "xdist.plugin", "-p", "xdist.looponfail"),
            f"--rootdir={folder}",
            "-c",
            str(folder / "pytest.ini"),
            *arguments,
            str(folder),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # Only the plugins of these runs: loading every installed plugin takes seconds.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    with run:
        try:
            yield run
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)


def test_a_skipped_test_fails_the_run(tmp_path: Path) -> None:
    source = "import pytest\ndef test_runs(): pass\n@pytest.mark.skip\ndef test_does_not(): pass\n"
    with run_pytest(tmp_path, source, "-p", "tests.no_skips", "-n", "1") as run:
        output, _ = run.communicate()
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, output
    assert "no test may be skipped, and 1 were" in output
    assert "1 passed, 1 skipped" in output


def test_a_run_without_skips_passes(tmp_path: Path) -> None:
    with run_pytest(tmp_path, "def test_runs(): pass\n", "-p", "tests.no_skips") as run:
        run.communicate()
    assert run.returncode == 0


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("plugin", "data"), [("tests.quick_servers", "cluster.data"), ("turno.testing.servers", "cluster.folder / 'data'")]
)
def test_an_interrupted_run_leaves_no_server(plugin: str, data: str, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    source = (
        "import signal, pathlib\n"
        "def test_waits(cluster):\n"
        f"    pathlib.Path({str(noted)!r}).write_text(str({data}))\n"
        "    signal.pause()\n"
    )
    with run_pytest(tmp_path, source, "-p", plugin, "-n", "1") as run:
        assert wait_until(lambda: run.poll() is not None or (noted.exists() and noted.read_text() != ""), within=30)
        folder = Path(noted.read_text())
        assert processes_in(folder)
        os.killpg(run.pid, signal.SIGINT)
        output, _ = run.communicate()
    assert run.returncode == pytest.ExitCode.INTERRUPTED, output
    assert wait_until(lambda: not processes_in(folder), within=20)
