"""An outside project tests its handlers with nothing but the shipped kit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.installation import ROOT

EXAMPLE = ROOT / "tests" / "example_project"


def test_the_example_project_s_tests_pass(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
    # The kit must work without the files of this project's tests.
    installed = tmp_path / "installed"
    installed.mkdir()
    for package in ("handlers", "turno"):
        (installed / package).symlink_to(ROOT / package)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TURNO_"))}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error"],
        cwd=project,
        env=kept | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "12 passed" in ended.stdout
