"""The SQL of a schema as files: numbered steps in `schema`, and the complete text of each function in `functions`.

The library, each capability and the application are sources: each numbers its steps from 0001.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Self

from turno.capability import LIBRARY, installed
from turno.errors import TurnoError

APPLICATION = "application"  # the source of the application's steps
FILE = re.compile(r"(\d{4})_([a-z0-9_]+)(\.down)?\.sql")
NO_TRANSACTION = re.compile(r"^-- no-transaction$", re.MULTILINE)
# Outside a transaction the server accepts only single statements; such files hold no function bodies.
FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(", re.MULTILINE)
NAMED = "a migration is named NNNN_name.sql, each number is used once, and a .down.sql has its .sql"
NUMBERED = "steps are numbered from 0001 without a gap: restore the missing file, or renumber the later files"
ONE_FUNCTION = "a file in functions creates (by CREATE OR REPLACE) the function of its name and none of another file"
END_OF_STATEMENT = re.compile(r";[ \t]*$", re.MULTILINE)


class InvalidMigrations(TurnoError):
    """A file of migrations has a wrong name, number or content; the message names the file and the rule."""


@dataclass(frozen=True, slots=True)
class Script:
    """One SQL file of a source."""

    text: str
    source: str = LIBRARY

    @property
    def transactional(self) -> bool:
        """Whether the file may run inside a transaction; not with a line `-- no-transaction`.

        Such a file is repeated from the top after a crash, so it first drops its objects: an index that could not be
        built concurrently stays there, invalid, and IF NOT EXISTS would accept it.
        """
        return not NO_TRANSACTION.search(self.text)

    @property
    def statements(self) -> list[str]:
        """The file in pieces that end with `;` at the end of a line."""
        pieces = (piece.strip() for piece in END_OF_STATEMENT.split(self.text))
        return [piece for piece in pieces if re.sub(r"--.*", "", piece).strip()]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema, by the number within its source. `checksum` changes with the text of the file."""

    number: int
    name: str
    up: Script
    down: Script | None

    @property
    def key(self) -> tuple[str, int]:
        """The step in a ledger: its source and its number."""
        return self.up.source, self.number

    @property
    def version(self) -> str:
        """The step's name in reports; see `version_of`."""
        return version_of(*self.key)

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text, independent of its line ends."""
        return hashlib.sha256(self.up.text.encode()).hexdigest()


def version_of(source: str, number: int) -> str:
    """Return a step's version: `0002` of the library or the application, `schedules/0002` of a capability."""
    return f"{number:04d}" if source in (LIBRARY, APPLICATION) else f"{source}/{number:04d}"


@dataclass(frozen=True)
class Files:
    """The steps of a schema by version, in the order of their application, and the files of its functions by name.

    The steps of the library and of all capabilities share a transaction. The application's files come after them,
    without functions.
    """

    steps: dict[str, Migration]
    functions: dict[str, Script] | None
    sources: tuple[str, ...]

    @cached_property
    def function_sources(self) -> dict[str, str]:
        """The source of each function that the files create."""
        scripts = (self.functions or {}).values()
        return {name: script.source for script in scripts for name in FUNCTION.findall(script.text)}

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
        """Read `control` and `tenant` in this folder and in `sql` of each capability, and the application's steps."""
        steps = {} if application is None else _steps(application, APPLICATION)
        return cls(_read(root, "control"), _read(root, "tenant"), Files(steps, None, (APPLICATION,)))

    @property
    def of_tenant(self) -> tuple[Files, Files]:
        """The steps of a tenant's schema, in this order."""
        return self.tenant, self.application


def _read(root: Traversable, part: str) -> Files:
    folders: dict[str, Traversable] = {LIBRARY: root / part}
    folders |= {one.name: folder for one in installed() if (folder := one.folder(f"sql/{part}")) is not None}
    steps: dict[str, Migration] = {}
    functions: dict[str, Script] = {}
    for source, home in folders.items():
        steps |= _steps(home / "schema", source)
        _add_functions(functions, home / "functions", source)
    return Files(steps, functions, (LIBRARY, *(one.name for one in installed())))


@cache
def packaged(application: Path | None = None) -> Migrations:
    """Return the migrations of this release, and of the application in this folder."""
    return Migrations.read(files("turno.migrations"), application)


def _steps(folder: Traversable, source: str) -> dict[str, Migration]:
    ups: dict[int, tuple[str, Script]] = {}
    downs: dict[str, Script] = {}
    for file in sorted(folder.iterdir() if folder.is_dir() else (), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        match = FILE.fullmatch(file.name)
        if not match or (not match[3] and int(match[1]) in ups):
            raise InvalidMigrations(f"{file.name}: {NAMED}")
        script = Script(file.read_text(encoding="utf-8"), source)
        if match[3]:
            downs[f"{match[1]}_{match[2]}"] = script
        else:
            ups[int(match[1])] = f"{match[1]}_{match[2]}", script
    if orphans := downs.keys() - {name for name, _ in ups.values()}:
        raise InvalidMigrations(f"{min(orphans)}.down.sql: {NAMED}")
    for expected, version in enumerate(sorted(ups), start=1):
        if version != expected:
            raise InvalidMigrations(f"{ups[version][0]}.sql: no {expected:04d}_*.sql precedes it; {NUMBERED}")
    steps = (Migration(number, name, up, downs.get(name)) for number, (name, up) in sorted(ups.items()))
    return {step.version: step for step in steps}


def _add_functions(functions: dict[str, Script], folder: Traversable, source: str) -> None:
    created = {name for script in functions.values() for name in FUNCTION.findall(script.text)}
    for file in sorted(folder.iterdir() if folder.is_dir() else (), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        script = Script(file.read_text(encoding="utf-8"), source)
        names = FUNCTION.findall(script.text)
        if file.name.removesuffix(".sql") not in names or created.intersection(names) or len(set(names)) < len(names):
            raise InvalidMigrations(f"{file.name}: {ONE_FUNCTION}")
        created.update(names)
        functions[file.name.removesuffix(".sql")] = script
