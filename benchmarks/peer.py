"""Another system in a separate Python environment, so that its packages do not mix with ours."""

from __future__ import annotations

import subprocess
import venv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class PeerMissing(Exception):
    """Another system could not be installed here, or its process ended."""


def install(folder: Path, *packages: str) -> Path:
    """Make an environment with these packages and return its Python; raises PeerMissing."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PeerMissing(done.stderr.strip().splitlines()[-1:])
    return python


def version(python: Path, package: str) -> str:
    """Return which release of a package is in an environment."""
    requested = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", requested], capture_output=True, text=True, check=True).stdout.strip()
