"""PgQueuer, in an environment and a process of its own, asked for one turn of enqueues at a time."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.peer import PeerMissing, install

if TYPE_CHECKING:
    from types import TracebackType

PACKAGE = "pgqueuer[asyncpg,cli]"


class PgQueuer:
    """Installs PgQueuer into a folder and keeps one process of it, from `with` to its end."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url

    def __enter__(self) -> Self:
        python = install(self._folder, PACKAGE)
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

    def _answer(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101 - opened with a pipe
        line = self._process.stdout.readline()
        if not line:
            raise PeerMissing(f"its process ended with status {self._process.wait(10)}")
        return json.loads(line)
