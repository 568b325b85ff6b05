"""A pooler in transaction mode between an application and its database, as many run it."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cli.servers.free_port import free_port
from cli.servers.unprivileged import identity_for
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = """
[databases]
pooled = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
"""


@contextmanager
def pooled(program: Path, url: str, role: str, folder: Path, *, more: str = "") -> Iterator[str]:
    """Give the conninfo of a pool of one session of this role with the password x."""
    known = conninfo_to_dict(url)
    server = " ".join(f"{name}={known[name]}" for name in ("host", "port", "dbname"))
    port = free_port()
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(server=f"{server} user={role} password=x", port=port) + more, encoding="utf-8")
    identity = identity_for(folder)
    identity.own(settings)
    running = subprocess.Popen(
        identity.command(program, settings, ends_with="KILL"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **identity.options,
    )
    try:
        conninfo = make_conninfo(host="127.0.0.1", port=port, dbname="pooled", user=role)
        assert wait_until(lambda: _answers(conninfo), within=20)
        yield conninfo
    finally:
        running.kill()
        running.wait()


def _answers(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return False
    return True
