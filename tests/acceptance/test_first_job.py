"""The first section of the README, literally, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.turno_process import OURS
from tests.installation import ROOT

BIN = Path(sys.executable).parent


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user who has installed the package and has nothing else of this checkout."""
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "turno").symlink_to(ROOT / "turno")
    kept = {name: value for name, value in os.environ.items() if name not in (*OURS, "TURNO_HANDLERS")}
    return kept | {"PYTHONPATH": str(installed), "PATH": f"{BIN}:{kept['PATH']}"}


def test_commands_and_handler_of_the_readme_give_the_result(
    tmp_path: Path, environment: dict[str, str], database: str
) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## First job")[2].partition("\n## ")[0]
    lines = [part for line in re.findall(r"^\$ (.*)$", section, re.MULTILINE) for part in line.split(" && ")]
    pip, init, migrate, add, submit, *following = lines
    (handler,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    folder = tmp_path / "shop"
    folder.mkdir()

    def run(line: str, *further: str) -> str:
        done = subprocess.run(
            [*shlex.split(line), *further], cwd=folder, env=environment, capture_output=True, text=True, check=False,
            timeout=90,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    assert pip == "pip install turno-jobs"
    run(init.replace("postgresql://postgres@localhost/shop", database))
    (folder / "jobs" / "monthly_report.py").write_text(handler, encoding="utf-8")
    run(migrate, "--yes")
    run(add)
    job = run(submit).strip()
    listed = [run(line) for line in following][-1]
    assert [line.split()[2] for line in listed.splitlines()[1:]] == ["done"]
    shown = json.loads(run(f"turno job show --tenant suc0001 {job}", "--json"))
    assert shown["result"]["month"] == "2026-06"
    assert shown["result"]["schema"].startswith("t_")
