"""The name of a process, or of its user, in the database."""

import os
import socket
from getpass import getuser

HOST = socket.gethostname()


def process_name(pid: int | None = None) -> str:
    """Return `host:pid`, of this process unless another of this host is named."""
    return f"{HOST}:{pid or os.getpid()}"


def person() -> str:
    """Return the shell's user, or the number of a user without a name, as in many containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
