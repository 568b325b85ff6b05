"""A network namespace behind a veth pair, which can drop every packet."""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from threading import Thread

NOBODY = "02:00:00:00:00:99"
GIVEN_UP_MS = 10_000


class Network:
    """The local end is on this machine, the remote end in a namespace; needs root."""

    def __init__(self, number: int) -> None:
        """Name both ends; `number` distinguishes networks on the same machine."""
        self.space, self.ours, self.theirs = f"turno-{number}", f"tu{number % 10**6}a", f"tu{number % 10**6}b"
        self.our_ip, self.their_ip = f"198.18.{number % 250}.1", f"198.18.{number % 250}.2"

    def ip(self, *arguments: str, inside: bool = False) -> None:
        """Run `ip`, on request in the namespace."""
        where = ("-n", self.space) if inside else ()
        subprocess.run(["ip", *where, *arguments], check=True, capture_output=True)

    def up(self) -> None:
        """Create both ends; raises OSError or CalledProcessError without the permission."""
        self.ip("netns", "add", self.space)
        self.ip("link", "add", self.ours, "type", "veth", "peer", "name", self.theirs, "netns", self.space)
        self.ip("address", "add", f"{self.our_ip}/30", "dev", self.ours)
        self.ip("link", "set", self.ours, "up")
        self.ip("address", "add", f"{self.their_ip}/30", "dev", self.theirs, inside=True)
        self.ip("link", "set", self.theirs, "up", inside=True)

    def swallow(self) -> None:
        """Drop every packet in both directions, without an error to either side."""
        wrong = ("lladdr", NOBODY, "nud", "permanent")
        self.ip("neigh", "replace", self.their_ip, "dev", self.ours, *wrong)
        self.ip("neigh", "replace", self.our_ip, "dev", self.theirs, *wrong, inside=True)

    def restore(self) -> None:
        """Deliver packets again."""
        self.ip("neigh", "flush", "dev", self.ours, "nud", "permanent")
        self.ip("neigh", "flush", "dev", self.theirs, "nud", "permanent", inside=True)

    def down(self) -> None:
        """Remove both ends; harmless if they are absent."""
        # The pair first: the kernel removes the pair of a deleted namespace later, and its name stays in use.
        for arguments in (("link", "delete", self.ours), ("netns", "delete", self.space)):
            with suppress(subprocess.CalledProcessError, OSError):
                self.ip(*arguments)

    def prefix(self) -> list[str]:
        """Return the command prefix that runs a command in the namespace."""
        return ["ip", "netns", "exec", self.space]

    def forward(self, target: int) -> int:
        """Forward a new port of the local end to a loopback port, in threads of this process; return the port."""
        listener = socket.create_server((self.our_ip, 0))
        Thread(target=_serve, args=(listener, target), daemon=True).start()
        port: int = listener.getsockname()[1]
        return port


def _serve(listener: socket.socket, target: int) -> None:
    while True:
        near, _ = listener.accept()
        # Close the connection to the server with the connection of the vanished client.
        near.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GIVEN_UP_MS)
        try:
            far = socket.create_connection(("127.0.0.1", target))
        except OSError:
            near.close()
            continue
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Thread(target=_pump, args=(near, far), daemon=True).start()
        Thread(target=_pump, args=(far, near), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
