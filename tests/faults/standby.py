"""A streaming standby of a cluster, which may be synchronous and may stop confirming."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from cli.servers.embedded_postgres import Cluster
from tests.installation import ExampleInstallation
from turno.testing.wait import wait_until


@contextmanager
def standby_of(cluster: Cluster, folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a streaming copy of the cluster; give its socket folder and its process."""
    identity = cluster.files.identity()
    programs = cluster.files.programs(identity)
    folder.mkdir()
    identity.own(folder)
    subprocess.run(
        identity.command(programs / "pg_basebackup", "-R", "-c", "fast", "-D", folder / "data", "-d", cluster.url),
        check=True, cwd=folder, capture_output=True, **identity.options,
    )  # fmt: skip
    sockets = Path(tempfile.mkdtemp(prefix="turno-", dir="/tmp"))
    identity.own(sockets)
    options = {"port": "5432", "listen_addresses": "", "unix_socket_directories": str(sockets)}
    options |= {"max_connections": "60", "max_locks_per_transaction": "256"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            identity.command(
                programs / "postgres", "-D", folder / "data",
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")), ends_with="INT",
            ),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder / "data", start_new_session=True,
            **identity.options,
        )  # fmt: skip
    try:
        yield str(sockets), process
    finally:
        process.send_signal(signal.SIGINT)  # fast: SIGTERM would wait for the worker's sessions
        process.wait(20)
        shutil.rmtree(sockets, ignore_errors=True)


def other_end(cluster: Cluster, sockets: str) -> tuple[str, str]:
    """Where the standby is, and where whichever of the two can be written to."""
    password = cluster.files.password
    there = f"postgresql://postgres:{password}@/turno?host={sockets}&port=5432"
    both = (
        f"postgresql://postgres:{password}@/turno?host={cluster.socket_directory},{sockets}&port=5432,5432"
        "&target_session_attrs=read-write"
    )
    return there, both


def synchronous(example: ExampleInstallation) -> None:
    """Have every commit wait for the standby; returns when the standby confirms commits."""
    example.admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    example.admin.execute("SELECT pg_reload_conf()")
    in_sync = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
    assert wait_until(lambda: example.rows(in_sync) != [], within=20)


@contextmanager
def confirming_nothing(standby: str) -> Iterator[None]:
    """Stop the process that receives the log at the standby of this URL, until the end of the block."""
    with psycopg.connect(standby, autocommit=True) as connection:
        (pid,) = connection.execute("SELECT pid FROM pg_stat_wal_receiver").fetchone() or (0,)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
