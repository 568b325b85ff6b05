"""Another system in a separate Python environment, so that its packages do not mix with ours."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
import tomllib
import venv
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


class PeerMissing(Exception):
    """Another system could not be installed here, or its process ended."""


@cache
def install(*packages: str) -> Path:
    """Make an environment with these packages, once in each process, and return its Python; raises PeerMissing."""
    folder = Path(tempfile.mkdtemp(prefix="turno-peer-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    pins = folder / "pins.txt"
    pins.write_text("\n".join(tomllib.loads(PROJECT.read_text())["tool"]["turno-benchmarks"]["peers"]))
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--constraint", pins, *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PeerMissing(f"not installed: {done.stderr.strip().splitlines()[-1:]}")
    return python


def version(python: Path, package: str) -> str:
    """Return which release of a package is in an environment."""
    requested = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", requested], capture_output=True, text=True, check=True).stdout.strip()
