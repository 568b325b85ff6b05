"""The folder `.turno`: the demo's database, its keys, and the connection data for another terminal."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dotenv import dotenv_values
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cli.servers.marked_processes import marks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECRETS = ("TURNO_MASTER_KEY", "TURNO_JWT_KEY")
# A demo that is stopped should stop soon; its jobs go on from their last chunk next time.
GRACE_SECONDS = "3"


@dataclass(frozen=True)
class DemoFolder:
    """Knows where everything of one demo is. `path` is absolute: workers start in another folder."""

    path: Path

    def make(self) -> None:
        """Make the folder, or close it: its logs, too, are its owner's alone."""
        self.path.mkdir(parents=True, exist_ok=True)
        # A server of root runs as another user, which must reach its data through this folder.
        self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)

    @property
    def postgres(self) -> Path:
        """The data folder of the embedded server."""
        return self.path / "postgres"

    @property
    def environment_file(self) -> Path:
        """The variables that `turno` reads from this folder without a setting."""
        return self.path / "demo.env"

    @property
    def web_log(self) -> Path:
        """What the web says."""
        return self.path / "web.log"

    @property
    def worker_log(self) -> Path:
        """The output of the spawned workers."""
        return self.path / "slots" / "workers.log"

    def variables(self, given: Mapping[str, str], admin_url: str, port: int) -> dict[str, str]:
        """Return the demo's settings; a secret is that of `given`, else the last demo's, else a new one."""
        last = dotenv_values(self.environment_file) if self.environment_file.exists() else {}
        keys = {name: given.get(name) or last.get(name) or secrets.token_hex(32) for name in SECRETS}
        return {
            "DATABASE_URL": without_password(admin_url),
            "TURNO_ADMIN_DATABASE_URL": admin_url,
            **keys,
            "TURNO_ENABLE_BACKGROUND_JOBS": "true",
            "TURNO_RUN_FOLDER": str(self.path / "slots"),
            "TURNO_SHUTDOWN_GRACE_SECONDS": GRACE_SECONDS,
            "TURNO_WEB_BIND": f"127.0.0.1:{port}",
            **marks(str(self.path)),
        }

    def write(self, variables: Mapping[str, str]) -> None:
        """Keep the variables where only the owner reads them."""
        lines = [f"{name}={_quoted(value)}\n" for name, value in variables.items()]
        new = self.environment_file.with_suffix(".new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.writelines(
                ["# Written by `turno demo`; `turno` reads it here while no DATABASE_URL is set.\n", *lines]
            )
        new.replace(self.environment_file)


def without_password(url: str) -> str:
    """Return the same server and database without a user: every service brings its own."""
    parameters = {name: str(value) for name, value in conninfo_to_dict(url).items() if name not in {"user", "password"}}
    return make_conninfo("", **parameters)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
