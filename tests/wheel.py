"""Turno as a user installs it: the wheel, alone in a new environment."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.installation import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Return a command's output; it has to succeed."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), cwd=ROOT)
    (built,) = folder.glob("turno_jobs-*.whl")
    return built


@pytest.fixture(scope="session")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an environment with the wheel and its requirements, and nothing of ours beside."""
    folder = tmp_path_factory.mktemp("environment")
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["constraint-dependencies"]
    (folder / "pins.txt").write_text("\n".join(pins))
    run("uv", "venv", "--quiet", "--python", sys.executable, str(folder / "venv"), cwd=folder)
    python = folder / "venv" / "bin" / "python"
    install = ("uv", "pip", "install", "--quiet", "--constraints", "pins.txt", "--python", str(python))
    run(*install, str(wheel), cwd=folder)
    return python.parent
