"""Which migrations each schema has had: a table for each source, in the schema itself and restored with it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, Self

from psycopg import Connection, sql

from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.definitions import digest_of
from turno.tenancy.schema_migrations.files import Files, Migration

# One statement reads this many schemas: each costs it two locks, and the server's lock table is finite.
TOGETHER = 500
Applied = dict[int, str]
# Not a migration: its checksum is the digest of what the schema's functions and rights were last made from.
DEFINITIONS = 0
FIRST = 1
LIBRARY = "schema_migrations"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one schema is, held against the files.

    `pending` are still to come, `drifted` were changed after they were applied, `unknown` have no file:
    a newer release was here. `at` is the highest version applied, 0 for none. `redefine` says that a function's text
    or the matrix of rights has changed since the schema's were made.
    """

    schema: str
    slug: str
    ledger: str
    at: int
    pending: tuple[int, ...]
    drifted: tuple[int, ...]
    unknown: tuple[int, ...]
    redefine: bool

    @classmethod
    def of(cls, schema: Schema, applied: Applied, files: Files) -> Self:
        """Hold what was applied against what is known."""
        applied = dict(applied)
        digest = applied.pop(DEFINITIONS, None)
        known = files.steps
        return cls(
            schema=schema.name,
            slug=schema.slug,
            ledger=files.ledger,
            at=max(applied, default=0),
            pending=tuple(sorted(known.keys() - applied.keys())),
            drifted=tuple(sorted(v for v in known.keys() & applied.keys() if known[v].checksum != applied[v])),
            unknown=tuple(sorted(applied.keys() - known.keys())),
            redefine=files.functions is not None and digest != digest_of(schema.matrix.digest, files),
        )

    @property
    def trouble(self) -> str | None:
        """Why this schema must not be migrated by this release, or None."""
        if FIRST in self.drifted and self.ledger == LIBRARY:
            return (
                "the schema was made by a commit before the first release, from which there is no upgrade; "
                "make a new database (for the demo: remove its folder .turno)"
            )
        if self.unknown:
            if self.ledger != LIBRARY:
                return (
                    f"version {self.unknown[-1]:04d} of the application has no file where MIGRATIONS says; correct it"
                )
            newer = f"version {self.unknown[-1]:04d} was applied by a newer release"
            return f"{newer}; use that one, or see docs/upgrading.md for the way back"
        if self.drifted:
            return f"version {self.drifted[0]:04d} was changed after it was applied here; restore the file"
        return None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The table of one source's steps; but for `read` all works on the schema of the search_path."""

    table: str

    def read(self, admin: Connection[Any], schemas: Sequence[str]) -> dict[str, Applied]:
        """Return version and checksum of all that was applied, for every schema at once."""
        ledgers: dict[str, Applied] = defaultdict(dict)
        present = self._present(admin, schemas)
        for start in range(0, len(present), TOGETHER):
            some = present[start : start + TOGETHER]
            branches = (
                sql.SQL("SELECT {}, version, checksum FROM {}").format(
                    sql.Literal(name), sql.Identifier(name, self.table)
                )
                for name in some
            )
            for name, version, checksum in admin.execute(sql.SQL(" UNION ALL ").join(branches), prepare=False):
                ledgers[name][version] = checksum
        return ledgers

    def _present(self, admin: Connection[Any], schemas: Sequence[str]) -> list[str]:
        rows = admin.execute(
            """
            SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relname = %s AND n.nspname = ANY (%s)
            """,
            [self.table, list(schemas)],
        )
        return [name for (name,) in rows]

    def record(self, admin: Connection[Any], migration: Migration) -> None:
        """Note that this migration was applied."""
        admin.execute(
            self._named("INSERT INTO {} (version, name, checksum) VALUES (%s, %s, %s)"),
            [migration.version, migration.name, migration.checksum],
        )

    def strike(self, admin: Connection[Any], version: int) -> None:
        """Note that this migration was taken back."""
        admin.execute(self._named("DELETE FROM {} WHERE version = %s"), [version])

    def has(self, admin: Connection[Any], version: int) -> bool:
        """Return whether the schema has this migration; make its ledger if it has none."""
        admin.execute(
            self._named(
                """
                CREATE TABLE IF NOT EXISTS {} (
                    version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
                    applied_at timestamptz NOT NULL DEFAULT clock_timestamp())
                """
            )
        )
        return admin.execute(self._named("SELECT FROM {} WHERE version = %s"), [version]).rowcount > 0

    def any_step(self, admin: Connection[Any]) -> bool:
        """Return whether the schema has had any migration that was not taken back."""
        return admin.execute(self._named("SELECT FROM {} WHERE version <> %s LIMIT 1"), [DEFINITIONS]).rowcount > 0

    def record_definitions(self, admin: Connection[Any], digest: str) -> None:
        """Note what functions and rights were made from."""
        admin.execute(
            self._named(
                """
                INSERT INTO {} (version, name, checksum) VALUES (%s, 'definitions', %s)
                ON CONFLICT (version) DO UPDATE SET checksum = excluded.checksum, applied_at = clock_timestamp()
                """
            ),
            [DEFINITIONS, digest],
        )

    def _named(self, statement: LiteralString) -> sql.Composed:
        return sql.SQL(statement).format(sql.Identifier(self.table))
