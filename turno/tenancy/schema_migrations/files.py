"""The SQL of a schema as files: numbered steps in `schema`, and the complete text of each function in `functions`.

The library, each capability and the application are sources: each numbers its steps from 0001.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Self

from turno.capability import LIBRARY, installed
from turno.errors import TurnoError
from turno.tenancy.identity.function_names import define_own_names

APPLICATION = "application"  # the source of the application's steps
FILE = re.compile(r"(\d{4}_[a-z0-9_]+)(\.down)?\.sql")
NO_TRANSACTION = re.compile(r"^-- no-transaction$", re.MULTILINE)
# Outside a transaction the server accepts only single statements; such files hold no function bodies.
FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(", re.MULTILINE)
TRIGGER_FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(\) RETURNS trigger", re.MULTILINE)
DECLARED = "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';"
NAMED = "a migration is named NNNN_name.sql, each number is used once, and a .down.sql has its .sql"
NUMBERED = "steps are numbered from 0001 without a gap: restore the missing file, or renumber the later files"
FUNCTION_RULE = "a file in functions creates (by CREATE OR REPLACE) the function of its name and none of another file"
END_OF_STATEMENT = re.compile(r";[ \t]*$", re.MULTILINE)


class InvalidMigrations(TurnoError):
    """A file of migrations has a wrong name, number or content; the message names the file and the rule."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema, by the number within its source, with the SQL that applies it and that takes it back."""

    source: str
    number: int
    name: str
    up: str
    down: str | None

    @property
    def key(self) -> tuple[str, int]:
        """The step in a ledger: its source and its number."""
        return self.source, self.number

    @property
    def version(self) -> str:
        """The step's name in reports; see `version_of`."""
        return version_of(*self.key)

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text, independent of its line ends."""
        return hashlib.sha256(self.up.encode()).hexdigest()


def version_of(source: str, number: int) -> str:
    """Return a step's version: `0002` of the library or the application, `schedules/0002` of a capability."""
    return f"{number:04d}" if source in (LIBRARY, APPLICATION) else f"{source}/{number:04d}"


def is_transactional(text: str) -> bool:
    """Return whether a file may run inside a transaction; not with a line `-- no-transaction`.

    Such a file is repeated from the top after a crash, so it first drops its objects: an index that could not be
    built concurrently stays there, invalid, and IF NOT EXISTS would accept it.
    """
    return not NO_TRANSACTION.search(text)


def statements_of(text: str) -> list[str]:
    """Return a file in pieces that end with `;` at the end of a line."""
    pieces = (piece.strip() for piece in END_OF_STATEMENT.split(text))
    return [piece for piece in pieces if re.sub(r"--.*", "", piece).strip()]


@dataclass(frozen=True)
class Files:
    """The steps of a schema by version, in the order of their application, and its functions: sources by name, and SQL.

    The steps of the library and of all capabilities share a transaction. The application's files come after them,
    without functions.
    """

    sources: tuple[str, ...]
    steps: dict[str, Migration]
    function_sources: dict[str, str]
    functions: str

    @cached_property
    def digest(self) -> str:
        """Changes whenever the text of a function does."""
        return hashlib.sha256(self.functions.encode()).hexdigest()

    def in_schema(self, text: str, schema: str) -> str:
        """Return SQL with the names that the functions of these files have in a tenant's schema."""
        return define_own_names(text, self.function_sources, schema)

    @cached_property
    def declarations(self) -> str:
        """The trigger functions without their text, for triggers of steps: functions are defined after all steps."""
        return "\n".join(DECLARED.format(name) for name in TRIGGER_FUNCTION.findall(self.functions))


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
        return cls(_read(root, "control"), _read(root, "tenant"), Files((APPLICATION,), steps, {}, ""))

    @property
    def of_tenant(self) -> tuple[Files, Files]:
        """The steps of a tenant's schema, in this order."""
        return self.tenant, self.application


@cache
def packaged(application: Path | None = None) -> Migrations:
    """Return the migrations of this release, and of the application in this folder."""
    return Migrations.read(files("turno.migrations"), application)


def _read(root: Traversable, part: str) -> Files:
    folders: dict[str, Traversable] = {LIBRARY: root / part}
    folders |= {
        capability.name: folder
        for capability in installed()
        if (folder := capability.folder(f"sql/{part}")) is not None
    }
    steps: dict[str, Migration] = {}
    sources: dict[str, str] = {}
    texts = []
    for source, home in folders.items():
        steps |= _steps(home / "schema", source)
        for file, text in _texts(home / "functions"):
            names = FUNCTION.findall(text)
            if file.removesuffix(".sql") not in names or sources.keys() & {*names} or len({*names}) < len(names):
                raise InvalidMigrations(f"{file}: {FUNCTION_RULE}")
            sources |= dict.fromkeys(names, source)
            texts.append(text)
    return Files((LIBRARY, *(capability.name for capability in installed())), steps, sources, "\n".join(texts))


def _steps(folder: Traversable, source: str) -> dict[str, Migration]:
    ups: dict[str, str] = {}
    downs: dict[str, str] = {}
    for file, text in _texts(folder):
        match = FILE.fullmatch(file)
        if not match:
            raise InvalidMigrations(f"{file}: {NAMED}")
        (downs if match[2] else ups)[match[1]] = text
    if orphans := downs.keys() - ups.keys():
        raise InvalidMigrations(f"{min(orphans)}.down.sql: {NAMED}")
    steps = [Migration(source, int(name[:4]), name, text, downs.get(name)) for name, text in ups.items()]
    for expected, step in enumerate(steps, start=1):
        if step.number < expected:
            raise InvalidMigrations(f"{step.name}.sql: {NAMED}")
        if step.number > expected:
            raise InvalidMigrations(f"{step.name}.sql: no {expected:04d}_*.sql precedes it; {NUMBERED}")
    return {step.version: step for step in steps}


def _texts(folder: Traversable) -> Iterator[tuple[str, str]]:
    """Yield name and text of each SQL file of a folder, which may be missing, by name."""
    for file in sorted(folder.iterdir() if folder.is_dir() else (), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            yield file.name, file.read_text(encoding="utf-8")
