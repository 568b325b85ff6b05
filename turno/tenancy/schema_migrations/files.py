"""The SQL of a schema as files: steps in `schema`, and in `functions` the whole current text of each function."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Self

FILE = re.compile(r"(\d{4})_([a-z0-9_]+)(\.down)?\.sql")
NO_TRANSACTION = re.compile(r"^-- no-transaction$", re.MULTILINE)
# Outside a transaction the server wants one statement at a time; such files hold no function bodies.
FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(", re.MULTILINE)
END_OF_STATEMENT = re.compile(r";[ \t]*$", re.MULTILINE)


class BadMigrationName(ValueError):
    """A migration is named NNNN_name.sql, each number is used once, and a .down.sql has its .sql."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: {self.__doc__}")


class MissingMigration(ValueError):
    """Steps are numbered from 0001 without a gap: restore the missing file, or number the later ones anew."""

    def __init__(self, missing: int, name: str) -> None:
        super().__init__(f"{name}.sql stands where no {missing:04d}_*.sql does. {self.__doc__}")


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


class BadFunctionFile(ValueError):
    """A file in `functions` creates (by CREATE OR REPLACE) the one it is named for and none of another file's."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: {self.__doc__}")


@dataclass(frozen=True)
class Files:
    """What one source brings to a schema: its steps by version, and the files of its functions by name.

    An application's source has steps alone: `functions` is None. `ledger` is the table that remembers its steps.
    """

    steps: dict[int, Migration]
    functions: dict[str, Script] | None
    ledger: str = "schema_migrations"

    @cached_property
    def function_names(self) -> frozenset[str]:
        """Every function that the files create."""
        scripts = (self.functions or {}).values()
        return frozenset(name for script in scripts for name in FUNCTION.findall(script.text))

    @cached_property
    def digest(self) -> str:
        """Changes whenever the text of a function does."""
        texts = (script.text for _, script in sorted((self.functions or {}).items()))
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Migrations:
    """The files of the control schema and of a tenant's, and the application's own for a tenant's."""

    control: Files
    tenant: Files
    application: Files

    @classmethod
    def read(cls, root: Traversable, application: Traversable | None = None) -> Self:
        """Read the folders `control` and `tenant` below this one, and the folder of an application's steps."""
        steps = {} if application is None else _steps(application)
        return cls(_read(root / "control"), _read(root / "tenant"), Files(steps, None, "application_migrations"))

    @property
    def of_tenant(self) -> tuple[Files, Files]:
        """What a tenant's schema gets, in this order."""
        return self.tenant, self.application


def _read(folder: Traversable) -> Files:
    return Files(_steps(folder / "schema"), _functions(folder / "functions"))


@cache
def packaged(application: Path | None = None) -> Migrations:
    """Return the migrations that this release ships, with those of the application in this folder."""
    return Migrations.read(files("turno.migrations"), application)


def _steps(folder: Traversable) -> dict[int, Migration]:
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
    for expected, version in enumerate(sorted(ups), start=1):
        if version != expected:
            raise MissingMigration(expected, ups[version][0])
    return {version: Migration(version, name, up, downs.get(name)) for version, (name, up) in ups.items()}


def _functions(folder: Traversable) -> dict[str, Script]:
    functions: dict[str, Script] = {}
    created: set[str] = set()
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        script = Script(file.read_text(encoding="utf-8"))
        names = FUNCTION.findall(script.text)
        if file.name.removesuffix(".sql") not in names or created.intersection(names) or len(set(names)) < len(names):
            raise BadFunctionFile(file.name)
        created.update(names)
        functions[file.name.removesuffix(".sql")] = script
    return functions
