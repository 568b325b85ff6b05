"""A link to the database that can lose the reply to a COMMIT: the client does not learn of its commit."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from threading import Condition, Thread

COMMITTED = b"COMMIT\0"  # the command tag in the server's reply
RESET = struct.pack("ii", 1, 0)  # SO_LINGER without lingering: closing sends RST


class CommitLink:
    """Forwards connections from its port, in threads that end with this process."""

    def __init__(self, target: int) -> None:
        """`target` is the server's loopback port."""
        self._target = target
        self._changed = Condition()
        self._armed = False
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        Thread(target=self._serve, args=(listener,), daemon=True).start()

    def lose_reply(self, *, within: float) -> bool:
        """Lose the next reply to a COMMIT; return False without such a reply in this time."""
        with self._changed:
            self._armed = True
            lost = self._changed.wait_for(lambda: not self._armed, within)
            self._armed = False
            return lost

    def armed(self) -> bool:
        """Return whether the next reply to a COMMIT is lost."""
        return self._armed

    def _serve(self, listener: socket.socket) -> None:
        while True:
            near, _ = listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the server is being restarted
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Thread(target=self._requests, args=(near, far), daemon=True).start()
            Thread(target=self._replies, args=(near, far), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)
        with suppress(OSError):
            far.shutdown(socket.SHUT_WR)

    def _replies(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(65536):
                if COMMITTED in data and self._take():
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    break
                near.sendall(data)
        for end in (near, far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _take(self) -> bool:
        with self._changed:
            taken, self._armed = self._armed, False
            self._changed.notify_all()
            return taken
