"""The data folder of a private PostgreSQL server: its password, and processes that a killed run left in it."""

import os
import re
import secrets
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from cli.servers.folder_lock import FolderLock
from cli.servers.postgres_binaries import find_binaries
from cli.servers.unprivileged import Identity, identity_for, programs_for
from turno.testing.wait import wait_until

PROCESSES = Path("/proc")
SOCKETS = re.compile(r'"unix_socket_directories=(/tmp/turno-[^"/]+)"')


class DataFolderError(RuntimeError):
    """The data folder cannot be made or used."""


class ServerRunningError(RuntimeError):
    """A server runs in the folder and does not go away."""


class DataFolder:
    """One data folder, its neighbours, and the identity of its programs."""

    def __init__(self, path: Path, binaries: Path | None = None) -> None:
        """`binaries` holds the server's programs, by default the result of `find_binaries`."""
        self.path = path.resolve()
        self._binaries = binaries
        self.password_file = self.path.with_name(f"{self.path.name}.password")

    @property
    def exists(self) -> bool:
        """Whether initdb has made this folder."""
        return (self.path / "PG_VERSION").exists()

    @property
    def version(self) -> int:
        """The major version of the server of this data."""
        return int((self.path / "PG_VERSION").read_text())

    @property
    def password(self) -> str:
        """The superuser's password."""
        try:
            return self.password_file.read_text().strip()
        except FileNotFoundError:
            raise DataFolderError(
                f"{self.password_file} is missing, and {self.path} cannot be used without it; put it back, "
                "or remove the data folder to begin anew"
            ) from None

    def identity(self) -> Identity:
        """Return the identity that runs the programs of this folder."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return identity_for(self.path.parent)

    def programs(self, identity: Identity) -> Path:
        """Return the folder of programs for this data folder."""
        return programs_for(identity, self._binaries or find_binaries(), self.path.with_name("postgres-programs"))

    def initialise(self) -> None:
        """Run initdb once: SCRAM for every connection, UTF-8, and a random password in a file only the owner reads."""
        if self.exists:
            return
        identity = self.identity()
        self.path.mkdir(mode=0o700, exist_ok=True)
        if not self.password_file.exists():
            file = os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as opened:
                opened.write(secrets.token_urlsafe(24))
        for path in (self.path, self.password_file):
            identity.own(path)
        done = subprocess.run(
            identity.command(
                self.programs(identity) / "initdb",
                *("--no-sync", "--auth=scram-sha-256", "--username=postgres", f"--pwfile={self.password_file}"),
                *("--encoding=UTF8", "--locale=C.UTF-8", f"--pgdata={self.path}"),
            ),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.path.parent,
            **identity.options,
        )
        if done.returncode != 0:
            raise DataFolderError(f"initdb failed in {self.path}:\n{done.stdout}{done.stderr}")

    def clone_from(self, template: Path) -> None:
        """Fill this folder with a copy of `template`, which is made first if it is missing."""
        source = DataFolder(template, self._binaries)
        with FolderLock(source.path):
            source.initialise()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", "--reflink=auto", source.path, self.path], check=True)
        subprocess.run(["cp", "-a", source.password_file, self.password_file], check=True)

    def remove(self) -> None:
        """Remove the folder and its password."""
        shutil.rmtree(self.path)
        self.password_file.unlink(missing_ok=True)


def processes_in(data: Path) -> list[int]:
    """Return the pids of the server processes at work in `data`: each of them makes it its current folder."""
    result: list[int] = []
    for entry in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "comm").read_text().strip() == "postgres" and (entry / "cwd").readlink() == data:
                result.append(int(entry.name))
    return result


def postmaster_in(data: Path) -> int | None:
    """Return the pid noted in `data`, whether or not it still lives."""
    try:
        return int((data / "postmaster.pid").read_text().splitlines()[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None


def is_ready(data: Path, pid: int) -> bool:
    """Return whether the server with `pid` has noted in `data` that it accepts connections."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] in (["ready"], ["standby"])


def end_leftovers(data: Path) -> None:
    """Leave no server process in `data`: a fast shutdown first, then by force."""
    postmaster = postmaster_in(data)
    if postmaster in processes_in(data):
        _signal(postmaster, signal.SIGINT)
        wait_until(lambda: postmaster not in processes_in(data), within=30)
    kill_all(data)


def remove_last_sockets(data: Path) -> None:
    """Remove the socket folder of the last server in `data`, which a killed run could not; that server has ended."""
    with suppress(FileNotFoundError):
        if result := SOCKETS.search((data / "postmaster.opts").read_text()):
            shutil.rmtree(result[1], ignore_errors=True)


def kill_all(data: Path) -> None:
    """Kill every server process in `data`, the postmaster first so that it restarts no process."""
    postmaster = postmaster_in(data)
    if postmaster in processes_in(data):
        _signal(postmaster, signal.SIGKILL)

    def gone() -> bool:
        left = processes_in(data)
        for pid in left:
            _signal(pid, signal.SIGKILL)
        return not left

    if not wait_until(gone, within=30):
        raise ServerRunningError(f"server processes {processes_in(data)} in {data} do not end")


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
