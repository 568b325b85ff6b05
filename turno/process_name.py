"""The name under which a process is entered in the database: as holder of a lease, as worker of an attempt."""

import os
import socket

HOST = socket.gethostname()


def process_name(pid: int | None = None) -> str:
    """Return `host:pid`, of this process unless another of this host is named."""
    return f"{HOST}:{pid or os.getpid()}"
