"""A program for tests: starts a cluster and waits to be killed."""

from __future__ import annotations

import os
import pwd
import signal
import sys
import threading
from pathlib import Path

from cli.servers.embedded_postgres import Cluster


def main(data: str, how: str) -> None:
    """Start the cluster, say its URL, and wait."""
    if how == "as nobody":
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    cluster = Cluster(data=Path(data), durable=True)
    if how == "in a thread":
        thread = threading.Thread(target=cluster.start)
        thread.start()
        thread.join()
    else:
        cluster.start()
    print(cluster.url, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
