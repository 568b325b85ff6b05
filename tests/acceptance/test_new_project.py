"""The files of `turno init` and `turno handler add` run unchanged: their tests pass, in a separate project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent


def test_the_tests_of_a_new_project_pass(tmp_path: Path) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    for command in (
        (str(BIN / "turno"), "init", "--package", "shop.jobs"),
        (str(BIN / "turno"), "handler", "add", "send_letters"),
        (str(BIN / "pytest"), "-q", "-p", "no:cacheprovider"),
    ):
        done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
