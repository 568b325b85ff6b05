"""Write the settings that every installation needs into `.env`, with keys of its own."""

from __future__ import annotations

import secrets
from pathlib import Path

from dotenv import dotenv_values

FILE, IGNORED = Path(".env"), Path(".gitignore")
KEY_BYTES = 32
USUAL_URL = "postgresql://localhost:5432/postgres"
ABOUT = {
    "TURNO_DATABASE_URL": "address of PostgreSQL, as a user with CREATEROLE; `turno db plan` shows its changes",
    "TURNO_MASTER_KEY": "secret that the passwords of all roles are derived from; keep a copy with the backups",
    "TURNO_JWT_KEY": "secret that signs tokens",
}


def write_environment(database_url: str | None) -> list[str]:
    """Add what is missing to `.env`, readable by its owner alone; return the names that were added.

    Present settings are kept: with another TURNO_MASTER_KEY no role of the installation could log in. A `database_url`
    other than the application's DATABASE_URL is written as TURNO_DATABASE_URL, which takes precedence.
    """
    there = dotenv_values(FILE, interpolate=False) if FILE.exists() else {}
    usable = there.get("DATABASE_URL") and database_url in {None, there["DATABASE_URL"]}
    values = {} if usable else {"TURNO_DATABASE_URL": database_url or USUAL_URL}
    values |= {"TURNO_MASTER_KEY": _key(), "TURNO_JWT_KEY": _key()}
    added = {name: value for name, value in values.items() if not there.get(name)}
    if added:
        before = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
        FILE.touch(mode=0o600)
        FILE.chmod(0o600)
        lines = "".join(f"# {ABOUT[name]}\n{name}={value}\n" for name, value in added.items())
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
