"""A program for tests: starts a cluster and waits to be killed."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from cli.embedded_postgres import Cluster


def main(data: str, where: str) -> None:
    """Start the cluster from the main thread or from another, say so, and wait."""
    cluster = Cluster(data=Path(data), durable=True)
    if where == "thread":
        thread = threading.Thread(target=cluster.start)
        thread.start()
        thread.join()
    else:
        cluster.start()
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
