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
    """The programs' folder of an environment with the wheel, its web and the pinned requirements."""
    folder = tmp_path_factory.mktemp("environment")
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["constraint-dependencies"]
    (folder / "pins.txt").write_text("\n".join(pins))
    return _installed(folder, "--constraints", "pins.txt", f"turno-jobs[serve] @ {wheel.as_uri()}")


@pytest.fixture(scope="session")
def oldest_programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an environment with the wheel alone and the oldest versions that it accepts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = tmp_path_factory.mktemp("oldest")
    return _installed(folder, "--resolution", "lowest-direct", str(wheel), *project["dependencies"])


def _installed(folder: Path, *arguments: str) -> Path:
    python = folder / "venv" / "bin" / "python"
    run("uv", "venv", "--quiet", "--python", sys.executable, str(folder / "venv"), cwd=folder)
    run("uv", "pip", "install", "--quiet", "--python", str(python), *arguments, cwd=folder)
    return python.parent
