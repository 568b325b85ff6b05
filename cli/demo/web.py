"""The demo's web: `turno serve` as a separate process on a loopback port."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from cli.demo.errors import DemoFailed
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

START_SECONDS = 30
STOP_SECONDS = 10


class DemoWeb:
    """Runs from `start` to `stop`, and ends when the demo is killed."""

    def __init__(self, *, port: int, environment: Mapping[str, str], log: Path) -> None:
        self.port = port
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Return when requests can be served; raises DemoFailed with the server's last words."""
        self._demand_free_port()
        tied = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*tied, sys.executable, "-m", "turno.commands.main", "serve"],
                env={**self._environment, "TURNO_DOTENV": "read"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Not in the terminal's group: Ctrl-C is for the demo, which stops things in their order.
                start_new_session=True,
            )
        wait_until(lambda: not self.running or self._ready(), within=START_SECONDS, every=0.05)
        if not (self.running and self._ready()):
            raise DemoFailed(f"the web does not answer at {self.url}; {self._log} ends with: {self._last_words()}")

    def stop(self) -> None:
        """Return when the server has ended; harmless when it is not running."""
        if self._process is None:
            return
        for end in (self._process.terminate, self._process.kill):
            end()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            return

    def _demand_free_port(self) -> None:
        try:
            socket.create_server(("127.0.0.1", self.port)).close()
        except OSError as error:
            raise DemoFailed(
                f"port {self.port} cannot be had ({os.strerror(error.errno or 0)}); choose another with --port"
            ) from error

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing"
