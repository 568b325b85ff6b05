"""Get the servers and programs that tests need from the system's own package manager."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLICY = Path("/usr/sbin/policy-rc.d")
FORBIDS_EVERY_START = "#!/bin/sh\nexit 101\n"


@dataclass(frozen=True, kw_only=True)
class SystemPackage:
    """Names a package, the marker of the tests that need it, and where its program may be."""

    name: str
    marker: str
    programs: tuple[str, ...]

    def find(self) -> Path | None:
        """Return the program, if it is installed."""
        result = (shutil.which(program) for program in self.programs)
        return next((Path(program) for program in result if program), None)

    def require(self) -> Path:
        """Return the program; raises LookupError where it is not installed."""
        program = self.find()
        if program is None:
            raise LookupError(f"{self.programs[-1]} is missing: install {self.name}, or let `turno test --deep` do it")
        return program


RABBITMQ = SystemPackage(
    name="rabbitmq-server",
    marker="rabbitmq",
    # Not Debian's wrapper on PATH, because the wrapper switches to a system user.
    programs=("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"),
)
CHROMIUM = SystemPackage(name="chromium", marker="chromium", programs=("chromium", "chromium-browser", "google-chrome"))
TYPESCRIPT = SystemPackage(name="node-typescript", marker="typescript", programs=("tsc",))
NODE = SystemPackage(name="nodejs", marker="node", programs=("node", "nodejs"))
MODULES = Path("usr", "share", "nodejs")  # the libraries of Node in Debian's packages
# The driver for PostgreSQL is a separate package without a program.
PHP = SystemPackage(name="php-cli php-pgsql", marker="php", programs=("php",))
# The oldest supported server, beside the embedded server.
POSTGRES_15 = SystemPackage(
    name="postgresql-15", marker="postgres15", programs=("/usr/lib/postgresql/15/bin/postgres",)
)
# A pooler as an application has it between itself and its database.
PGBOUNCER = SystemPackage(name="pgbouncer", marker="pgbouncer", programs=("/usr/sbin/pgbouncer", "pgbouncer"))
# Reads the files of deploy/ in tests.
NGINX = SystemPackage(name="nginx", marker="nginx", programs=("/usr/sbin/nginx", "nginx"))
LOGROTATE = SystemPackage(name="logrotate", marker="logrotate", programs=("/usr/sbin/logrotate", "logrotate"))
PROMTOOL = SystemPackage(name="prometheus", marker="promtool", programs=("promtool",))
# Searches the states of model/jobs.pml; it writes a C program.
SPIN = SystemPackage(name="spin gcc libc6-dev", marker="spin", programs=("spin",))
SYSTEMD_ANALYZE = SystemPackage(name="systemd", marker="systemd_analyze", programs=("systemd-analyze",))
WANTED = (
    RABBITMQ,
    CHROMIUM,
    TYPESCRIPT,
    NODE,
    PHP,
    POSTGRES_15,
    PGBOUNCER,
    NGINX,
    LOGROTATE,
    PROMTOOL,
    SPIN,
    SYSTEMD_ANALYZE,
)


def missing(packages: Sequence[SystemPackage] = WANTED) -> list[SystemPackage]:
    """Return the packages without an installed program."""
    return [package for package in packages if package.find() is None]


def reason_not_to_install() -> str | None:
    """Return why packages cannot be installed here, or nothing when they can."""
    if not shutil.which("apt-get"):
        return "there is no apt-get here"
    if os.geteuid() != 0:
        return "only root may run apt-get"
    return None


def install(packages: Sequence[SystemPackage], *, policy: Path = POLICY) -> bool:
    """Install `packages` without starting a service; return whether apt-get succeeded."""
    with no_service_starts(policy):
        # A bare image often has no package lists; they are fetched only when they are missed.
        return _apt_get("install", packages) or (_apt_get("update") and _apt_get("install", packages))


def unpack(names: Sequence[str], folder: Path) -> None:
    """Unpack packages in `folder` without their dependencies: with a Node of another origin, apt-get installs none."""
    folder.mkdir(parents=True)
    download = ["apt-get", "--quiet", "download", *names]
    if subprocess.run(download, cwd=folder, check=False).returncode:
        _apt_get("update")
        subprocess.run(download, cwd=folder, check=True)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)


@contextlib.contextmanager
def no_service_starts(policy: Path = POLICY) -> Iterator[None]:
    """Forbid packages to start services; restore the policy afterwards."""
    saved = policy.with_name(f"{policy.name}.before-turno")
    if policy.exists() and not saved.exists():
        policy.rename(saved)
    policy.write_text(FORBIDS_EVERY_START)
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
        if saved.exists():
            saved.rename(policy)


def _apt_get(action: str, packages: Sequence[SystemPackage] = ()) -> bool:
    options = ["--yes", "--no-install-recommends"] if packages else []
    done = subprocess.run(
        ["apt-get", "--quiet", *options, action, *(name for package in packages for name in package.name.split())],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0
