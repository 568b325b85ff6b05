"""Write the settings that every installation needs into `.env`, with keys of its own."""

from __future__ import annotations

import secrets
from pathlib import Path

from dotenv import dotenv_values

FILE, IGNORED = Path(".env"), Path(".gitignore")
KEY_BYTES = 32
USUAL_URL = "postgresql://localhost:5432/postgres"
ABOUT = {
    "DATABASE_URL": "where PostgreSQL is, as a user who may make roles; `turno migrate --plan` says what it would do",
    "MASTER_KEY": "what the passwords of all roles are derived from; keep a copy where backups are kept",
    "JWT_KEY": "what tokens are signed with",
}


def write_environment(database_url: str | None) -> list[str]:
    """Add what is missing to `.env`, readable by its owner alone; return the names that were added.

    A setting that stands there already is kept: another MASTER_KEY would lock every role of the installation out, and
    DATABASE_URL may be the application's. Next to that, a `database_url` is written as TURNO_DATABASE_URL, which wins.
    """
    there = dotenv_values(FILE, interpolate=False) if FILE.exists() else {}
    own = "TURNO_DATABASE_URL" if database_url and there.get("DATABASE_URL") not in {None, "", database_url} else ""
    values = {own or "DATABASE_URL": database_url or USUAL_URL, "MASTER_KEY": _key(), "JWT_KEY": _key()}
    added = {name: value for name, value in values.items() if not there.get(name)}
    if added:
        before = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
        FILE.touch(mode=0o600)
        FILE.chmod(0o600)
        lines = "".join(f"# {ABOUT[name.removeprefix('TURNO_')]}\n{name}={value}\n" for name, value in added.items())
        FILE.write_text(f"{before.rstrip()}\n\n{lines}" if before.strip() else lines, encoding="utf-8")
    return list(added)


def keep_out_of_git() -> bool:
    """Add `.env` to `.gitignore` in a Git checkout whose file does not name it; say whether that was needed."""
    if not Path(".git").exists():
        return False
    text = IGNORED.read_text(encoding="utf-8") if IGNORED.exists() else ""
    if {".env", "/.env", "*.env"} & set(map(str.strip, text.splitlines())):
        return False
    IGNORED.write_text(f"{text.rstrip()}\n.env\n".lstrip(), encoding="utf-8")
    return True


def _key() -> str:
    return secrets.token_hex(KEY_BYTES)
