"""Run a private PostgreSQL server as a child of this process."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from cli.servers.folder_lock import FolderLock
from cli.servers.free_port import free_port
from cli.servers.postgres_files import DataFolder, end_leftovers, is_ready, kill_all, remove_last_sockets
from cli.servers.unprivileged import Identity
from turno.testing.wait import wait_until

RESERVED_SINCE = 16  # connections for the roles of web, workers and operators
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class ClusterError(RuntimeError):
    """The server did not start or did not stop."""


class Cluster:
    """Keeps one private PostgreSQL server from `start` to `stop`; every connection needs its password."""

    def __init__(
        self,
        *,
        data: Path,
        durable: bool,
        tcp: bool = False,
        max_connections: int = 200,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
    ) -> None:
        """`binaries` holds the server's programs; by default they are searched for."""
        self.files = DataFolder(data, binaries)
        self._tcp = tcp
        self._settings = {
            "max_connections": str(max_connections),
            "reserved_connections": str(max_connections // 7),
            "shared_buffers": "128MB",
            "max_locks_per_transaction": "256",
            "client_connection_check_interval": "500ms",
            **({} if durable else NOT_DURABLE),
            **(settings or {}),
        }
        self._lock = FolderLock(self.files.path)
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: Path | None = None
        self.port = 5432

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.files.path

    @property
    def log(self) -> Path:
        """The file that receives the server's output."""
        return self.data / "server.log"

    @property
    def pid(self) -> int:
        """The postmaster's pid."""
        if self._process is None:
            raise ClusterError(f"no server runs in {self.data}: call start()")
        return self._process.pid

    @property
    def socket_directory(self) -> Path:
        """The folder of the server's socket, for this user only."""
        if self._sockets is None:
            raise ClusterError(f"no server runs in {self.data}: call start()")
        return self._sockets

    @property
    def url(self) -> str:
        """Where the superuser `postgres` reaches the database `postgres`, password included."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return where the superuser reaches `database`, password included."""
        address = f"127.0.0.1:{self.port}" if self._tcp else ""
        query = "" if self._tcp else f"?host={quote(str(self.socket_directory), safe='')}&port={self.port}"
        return (
            f"postgresql://postgres:{quote(self.files.password, safe='')}@{address}/{quote(database, safe='')}{query}"
        )

    def start(self) -> None:
        """Return when the server accepts connections; a second start on the same folder is refused."""
        if self._process is not None:
            raise ClusterError(f"the server in {self.data} is already started")
        if self._sockets is None:
            self._lock.acquire()
        try:
            self.files.initialise()
            end_leftovers(self.data)
            self._launch(self.files.identity())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Return when the server has ended in good order and its sockets are gone; harmless without a server."""
        try:
            self._end(signal.SIGINT)
        finally:
            if self._sockets is not None:
                shutil.rmtree(self._sockets, ignore_errors=True)
                self._sockets = None
            self._lock.release()

    def restart_immediate(self) -> None:
        """Crash the server the orderly way, without a checkpoint, and start it again under the same URL."""
        self._end(signal.SIGQUIT)
        self.start()

    def kill(self) -> None:
        """Kill the server and all its processes at once; `start` then recovers it under the same URL."""
        self._end(signal.SIGKILL)
        kill_all(self.data)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, identity: Identity) -> None:
        if self._sockets is None:
            remove_last_sockets(self.data)
            # Not beside the data: a socket's path may have 107 bytes at most.
            self._sockets = Path(tempfile.mkdtemp(prefix="turno-", dir="/tmp"))
            identity.own(self._sockets)
            if self._tcp:
                self.port = free_port()
        if self.files.version < RESERVED_SINCE:
            self._settings.pop("reserved_connections", None)
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1" if self._tcp else "",
            "unix_socket_directories": str(self._sockets),
            "unix_socket_permissions": "0700",
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                identity.command(
                    self.files.programs(identity) / "postgres", "-D", self.data, *options, ends_with="INT"
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data,
                start_new_session=True,
                **identity.options,
            )
        self._process = process
        wait_until(lambda: process.poll() is not None or is_ready(self.data, process.pid), within=60)
        if process.poll() is not None or not is_ready(self.data, process.pid):
            raise ClusterError(f"the server in {self.data} did not start:\n{self._last_words()}")

    def _end(self, first: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        for number, patience in ((first, 30), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
            process.send_signal(number)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
            self._process = None
            return
        raise ClusterError(f"the server in {self.data} (pid {process.pid}) does not end")

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])
