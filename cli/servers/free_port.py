"""A port for a server of our own."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a free TCP port of 127.0.0.1.

    It lies below the ports that the system lends to outgoing connections, any of which might have it before its server.
    """
    while True:
        port = random.randrange(15_000, 30_000)  # noqa: S311 - any will do
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
