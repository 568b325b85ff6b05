"""PgQueuer, in an environment and a process of its own, asked for one turn of enqueues at a time."""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

PACKAGE = "pgqueuer[asyncpg,cli]"


class PgQueuerMissing(Exception):
    """PgQueuer could not be installed here."""


class PgQueuer:
    """Installs PgQueuer into a folder and keeps one process of it, from `with` to its end."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url

    def __enter__(self) -> Self:
        python = self._install()
        script = Path(__file__).with_name("pgqueuer_process.py")
        self._process = subprocess.Popen(
            [python, "-I", script, self._url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version: str = self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=10)

    def enqueue(self, times: int) -> list[float]:
        """Enqueue so many jobs one by one and return the milliseconds of each."""
        assert self._process.stdin is not None  # noqa: S101 - opened with a pipe
        print(times, file=self._process.stdin, flush=True)
        took: list[float] = self._answer()
        return took

    def _install(self) -> Path:
        venv.create(self._folder, with_pip=True)
        python = self._folder / "bin" / "python"
        done = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", PACKAGE], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PgQueuerMissing(done.stderr.strip().splitlines()[-1:])
        return python

    def _answer(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101 - opened with a pipe
        line = self._process.stdout.readline()
        if not line:
            raise PgQueuerMissing(f"its process ended with status {self._process.wait(10)}")
        return json.loads(line)
