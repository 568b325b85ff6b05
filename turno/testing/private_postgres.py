"""Run a PostgreSQL server for the tests of one process: with a password, not durable, and removed at the end."""

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

from turno.wiring.embedded_server import NoServer, identity, initialise, programs

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "max_locks_per_transaction": "256",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
}
ENDED_WITH_TESTS = ("setpriv", "--pdeathsig=INT")


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
    folder_of_programs = programs()
    with TemporaryDirectory(prefix="turno-") as name:
        server = PrivatePostgres(Path(name), secrets.token_hex(16))
        log, password = server.folder / "server.log", server.folder / "password"
        for file in (log, password):
            file.touch(mode=0o600)
        password.write_text(server.password, encoding="utf-8")
        user = identity(server.folder)
        initialise(user, folder_of_programs, server.folder)
        settings = SETTINGS | {"unix_socket_directories": name, "unix_socket_permissions": "0700"}
        options = [word for setting in settings.items() for word in ("-c", "=".join(setting))]
        # The kernel ends the server with the thread that started it, which must be that of the whole run.
        tied = ENDED_WITH_TESTS if current_thread() is main_thread() and shutil.which("setpriv") else ()
        command = [*user, *tied, str(folder_of_programs / "postgres"), "-D", str(server.folder / "data"), *options]
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


def _is_ready(folder: Path) -> bool:
    file = folder / "data" / "postmaster.pid"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [line.strip() for line in lines[7:8]] == ["ready"]
