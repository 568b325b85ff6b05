"""A bad link as a process: it delays, cuts into slices, resets, or when stopped by a signal stalls."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Thread

from tests.installation import ROOT

RESET = struct.pack("ii", 1, 0)  # SO_LINGER without lingering: closing sends RST


@contextmanager
def bad_link(
    target: int, how: str = "plain", *, address: str = "127.0.0.1"
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run the proxy to a loopback port; give its own port and process."""
    command = [sys.executable, "-m", "tests.faults.tcp_proxy", str(target), how, address]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def stall(link: subprocess.Popen[str]) -> None:
    """Have the link pass nothing on; returns when all its threads have stopped, not when the signal is on its way."""
    link.send_signal(signal.SIGSTOP)
    os.waitpid(link.pid, os.WUNTRACED)


def forward(source: socket.socket, sink: socket.socket, how: str, *, resets_after: int | None) -> None:
    passed = 0
    with suppress(OSError):
        while data := source.recv(65536):
            if how == "latency":
                time.sleep(0.02)
            step = 7 if how == "slice" else len(data)
            for start in range(0, len(data), step):
                sink.sendall(data[start : start + step])
            passed += len(data)
            if resets_after is not None and passed > resets_after:
                for end in (source, sink):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                break
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


def main(target: int, how: str, address: str) -> None:
    """Serve until killed; with `reset` each connection lives a little longer than the last."""
    with socket.create_server((address, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        for number in count():
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", target))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A login takes about 1,500 bytes from the server.
            limit = 1000 + 600 * number if how == "reset" else None
            Thread(target=forward, args=(near, far, how), kwargs={"resets_after": None}, daemon=True).start()
            Thread(target=forward, args=(far, near, how), kwargs={"resets_after": limit}, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
