"""PgQueuer in a separate environment and processes, driven one turn of jobs at a time."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.peer import PeerMissing, install

if TYPE_CHECKING:
    from types import TracebackType

PACKAGE = "pgqueuer[asyncpg]"
SCRIPT = Path(__file__).with_name("pgqueuer_process.py")


class PgQueuer:
    """Installs PgQueuer and keeps its processes, from `with` to its end."""

    def __init__(self, folder: Path, url: str, *, works: bool = False) -> None:
        """With `works` a worker runs, and the measurement ends at the job's first line, otherwise at the enqueue."""
        self._url = url
        self._bell = [str(folder / "pgqueuer-bell")] if works else []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            python = install(PACKAGE)
            command = [str(python), "-I", str(SCRIPT), self._url, *self._bell]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(self._process.communicate, timeout=10)
            self.version: str = self._answer()
            if self._bell:
                worker = subprocess.Popen([*command, "work"])
                stack.callback(worker.wait)
                stack.callback(worker.kill)
                self.turn(1)  # the first signal that the worker listens
            self._ending = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    def turn(self, times: int, how: str = "") -> list[float]:
        """Enqueue `n` jobs, each after the end of the previous job, and return their milliseconds.

        How: "beside" a row of the caller's in its transaction, or all "together", which is one number.
        """
        assert self._process.stdin is not None  # noqa: S101 - opened with a pipe
        print(times, how, file=self._process.stdin, flush=True)
        took: list[float] = self._answer()
        return took

    def _answer(self) -> Any:
        assert self._process.stdout is not None  # noqa: S101 - opened with a pipe
        line = self._process.stdout.readline()
        if not line:
            raise PeerMissing(f"its process ended with status {self._process.wait(10)}")
        return json.loads(line)
