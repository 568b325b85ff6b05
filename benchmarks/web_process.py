"""A web server in a separate process, from its first answer to its graceful end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environment import ROOT
from cli.servers.free_port import free_port
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.environment import BenchEnvironment

# Counted as by default, but never refused.
UNLIMITED = "commands_per_minute_per_tenant=0,jobs_per_day_per_tenant=0"
TURNO = "from turno.commands.main import main; main(['serve'])"
BARE = "from benchmarks.bare_web import serve; serve()"


class WebDidNotStart(Exception):
    """The server does not answer; its log is in the message."""


@dataclass(frozen=True, slots=True)
class WebProcess:
    """A listening server, and its single serving process."""

    port: int
    pid: int

    @property
    def worker(self) -> int:
        """Return the process that answers."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])


@contextmanager
def serving(bench: BenchEnvironment, code: str, **extra: str) -> Iterator[int]:
    """Run a server, give its port once it listens, and end it."""
    with serving_process(bench, code, **extra) as web:
        yield web.port


@contextmanager
def serving_process(bench: BenchEnvironment, code: str, **extra: str) -> Iterator[WebProcess]:
    """Run a server, say where it is once it listens, and end it."""
    port = free_port()
    log_path = bench.folder / f"web-{port}.log"
    limits = ",".join(filter(None, (UNLIMITED, extra.pop("TURNO_LIMITS", ""))))
    environment = bench.environment(TURNO_WEB_BIND=f"127.0.0.1:{port}", TURNO_LIMITS=limits, **extra)
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        if not wait_until(lambda: process.poll() is not None or _listens(port), within=120) or process.poll():
            raise WebDidNotStart(log_path.read_text())
        try:
            yield WebProcess(port, process.pid)
        except Exception as error:
            error.add_note(f"the end of the log of the server at port {port}:\n{log_path.read_text()[-2000:]}")
            raise
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
