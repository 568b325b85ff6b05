"""The migrations as files: NNNN_name.sql, and NNNN_name.down.sql where it can be taken back."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Self

FILE = re.compile(r"(\d{4})_([a-z0-9_]+)(\.down)?\.sql")
NO_TRANSACTION = re.compile(r"^-- no-transaction$", re.MULTILINE)
# Outside a transaction the server wants one statement at a time; such files hold no function bodies.
END_OF_STATEMENT = re.compile(r";[ \t]*$", re.MULTILINE)


class BadMigrationName(ValueError):
    """A migration is named NNNN_name.sql, each number is used once, and a .down.sql has its .sql."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: {self.__doc__}")


@dataclass(frozen=True, slots=True)
class Script:
    """One SQL file."""

    text: str

    @property
    def transactional(self) -> bool:
        """Whether the file may run inside a transaction; `-- no-transaction` on a line of its own says no.

        Such a file is repeated from the top after a crash, so it first drops what it makes: an index that could not
        be built concurrently stays there, invalid, and IF NOT EXISTS would be content with it.
        """
        return not NO_TRANSACTION.search(self.text)

    @property
    def statements(self) -> list[str]:
        """The file in pieces that end with `;` at the end of a line."""
        pieces = (piece.strip() for piece in END_OF_STATEMENT.split(self.text))
        return [piece for piece in pieces if re.sub(r"--.*", "", piece).strip()]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema. `checksum` tells whether the file is still the one that was applied."""

    version: int
    name: str
    up: Script
    down: Script | None

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text, whatever its line ends."""
        return hashlib.sha256(self.up.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Migrations:
    """Every step of the control schema and of a tenant's, by version."""

    control: dict[int, Migration]
    tenant: dict[int, Migration]

    @classmethod
    def read(cls, root: Traversable) -> Self:
        """Read the folders `control` and `tenant` below this one."""
        return cls(_read(root / "control"), _read(root / "tenant"))


@cache
def packaged() -> Migrations:
    """Return the migrations that this release ships."""
    return Migrations.read(files("migrations"))


def _read(folder: Traversable) -> dict[int, Migration]:
    ups: dict[int, tuple[str, Script]] = {}
    downs: dict[str, Script] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        match = FILE.fullmatch(file.name)
        if not match or (not match[3] and int(match[1]) in ups):
            raise BadMigrationName(file.name)
        script = Script(file.read_text(encoding="utf-8"))
        if match[3]:
            downs[f"{match[1]}_{match[2]}"] = script
        else:
            ups[int(match[1])] = f"{match[1]}_{match[2]}", script
    if orphans := downs.keys() - {name for name, _ in ups.values()}:
        raise BadMigrationName(f"{min(orphans)}.down.sql")
    return {version: Migration(version, name, up, downs.get(name)) for version, (name, up) in ups.items()}
