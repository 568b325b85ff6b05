"""The applied migrations of each schema: one table in the schema itself, restored with it, for all sources."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from psycopg import Connection, sql

from turno.capability import LIBRARY
from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.files import APPLICATION, Files, version_of

# One statement reads this many schemas: each costs two locks, and the server's lock table is finite.
TOGETHER = 500
Applied = dict[str, str]  # checksums by version
# Not a migration: the checksum is the digest of the functions' text and the rights as the schema has them.
DEFINITIONS = LIBRARY, 0, "definitions"


@dataclass(frozen=True, slots=True)
class Standing:
    """The applied steps of one schema, compared with the files.

    `pending` steps are to be applied, `drifted` files changed after their application, `unknown` steps have no file: a
    newer release applied them. `at` is the number of the newest step, 0 for none; steps of capabilities do not count.
    `redefine` states that a function's text or the matrix of rights differs from the schema's.
    """

    schema: str
    slug: str
    files: Files
    at: int
    pending: tuple[str, ...]
    drifted: tuple[str, ...]
    unknown: tuple[str, ...]
    redefine: bool

    @classmethod
    def of(cls, schema: Schema, applied: Applied, files: Files) -> Self:
        """Compare the applied steps with the files."""
        applied = dict(applied)
        digest = applied.pop(version_of(*DEFINITIONS[:2]), None)
        known = files.steps
        return cls(
            schema=schema.name,
            slug=schema.slug,
            files=files,
            at=max((int(version) for version in applied if version.isdecimal()), default=0),
            pending=tuple(version for version in known if version not in applied),
            drifted=tuple(v for v in known if v in applied and known[v].checksum != applied[v]),
            unknown=tuple(sorted(applied.keys() - known.keys())),
            redefine=bool(files.functions) and digest != digest_of(schema, files),
        )

    @property
    def source(self) -> str:
        """The library, for the steps of the library and of capabilities, or the application."""
        return self.files.sources[0]

    @property
    def behind(self) -> bool:
        """Whether an upgrade has something to do or to report."""
        return bool(self.pending or self.trouble or self.redefine)

    @property
    def trouble(self) -> str | None:
        """The reason why this release must not migrate this schema, or None."""
        if self.unknown and self.source == APPLICATION:
            return f"version {self.unknown[-1]} of the application has no file in the folder of [tool.turno] migrations"
        if self.unknown:
            return f"version {self.unknown[-1]} was applied by a newer release; use the newer release"
        if self.drifted:
            changed = f"version {self.drifted[0]} was changed after it was applied here; restore the file"
            return f"{changed}, or make a new database (for the demo: remove its folder .turno)"
        return None


def digest_of(schema: Schema, files: Files) -> str:
    """Return a digest that changes with each right and with the text of each function."""
    return hashlib.sha256(f"{schema.matrix.digest} {files.digest}".encode()).hexdigest()


def read_ledgers(admin: Connection[Any], schemas: Sequence[str], files: Files) -> dict[str, Applied]:
    """Return the applied steps of the files' sources, schema by schema. Steps of absent sources are left out."""
    rows = admin.execute(
        """
        SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = 'schema_migrations' AND n.nspname = ANY (%s)
        """,
        [list(schemas)],
    )
    present = [name for (name,) in rows]
    ledgers: dict[str, Applied] = defaultdict(dict)
    for start in range(0, len(present), TOGETHER):
        branches = (
            sql.SQL("SELECT {}, source, version, checksum FROM {}").format(
                sql.Literal(name), sql.Identifier(name, "schema_migrations")
            )
            for name in present[start : start + TOGETHER]
        )
        for name, source, number, checksum in admin.execute(sql.SQL(" UNION ALL ").join(branches), prepare=False):
            if source in files.sources:
                ledgers[name][version_of(source, number)] = checksum
    return ledgers


# The functions below work on the schema of the search_path.


def applied_steps(admin: Connection[Any]) -> set[tuple[str, int]]:
    """Return source and number of each applied step; create the ledger if it is missing."""
    admin.execute(
        """
        CREATE TABLE IF NOT EXISTS schema_migrations (
            source text NOT NULL, version integer NOT NULL, name text NOT NULL, checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (source, version))
        """
    )
    return set(admin.execute("SELECT source, version FROM schema_migrations").fetchall())


def record(admin: Connection[Any], source: str, number: int, name: str, checksum: str) -> None:
    """Record an applied step, or the digest of the functions and rights."""
    admin.execute(
        """
        INSERT INTO schema_migrations (source, version, name, checksum) VALUES (%s, %s, %s, %s)
        ON CONFLICT (source, version) DO UPDATE SET checksum = excluded.checksum, applied_at = clock_timestamp()
        """,
        [source, number, name, checksum],
    )


def strike(admin: Connection[Any], source: str, number: int) -> None:
    """Remove the record of a step that was rolled back."""
    admin.execute("DELETE FROM schema_migrations WHERE source = %s AND version = %s", [source, number])
