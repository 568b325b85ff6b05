"""Which migrations each schema has had: a table in the schema itself, so that it is restored with it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

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


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one schema is, held against the files.

    `pending` are still to come, `drifted` were changed after they were applied, `unknown` have no file:
    a newer release was here. `at` is the highest version applied, 0 for none. `redefine` says that a function's text
    or the matrix of rights has changed since the schema's were made.
    """

    schema: str
    slug: str
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
            at=max(applied, default=0),
            pending=tuple(sorted(known.keys() - applied.keys())),
            drifted=tuple(sorted(v for v in known.keys() & applied.keys() if known[v].checksum != applied[v])),
            unknown=tuple(sorted(applied.keys() - known.keys())),
            redefine=digest != digest_of(schema.matrix.digest, files),
        )

    @property
    def trouble(self) -> str | None:
        """Why this schema must not be migrated by this release, or None."""
        if FIRST in self.drifted:
            return (
                "the schema was made by a commit before the first release, from which there is no upgrade; "
                "make a new database (for the demo: remove its folder .turno)"
            )
        if self.unknown:
            return f"version {self.unknown[-1]:04d} was applied by a newer release; use that one"
        if self.drifted:
            return f"version {self.drifted[0]:04d} was changed after it was applied here; restore the file"
        return None


def read_ledgers(admin: Connection[Any], schemas: Sequence[str]) -> dict[str, Applied]:
    """Return version and checksum of all that was applied, for every schema at once."""
    ledgers: dict[str, Applied] = defaultdict(dict)
    present = _with_ledger(admin, schemas)
    for start in range(0, len(present), TOGETHER):
        some = present[start : start + TOGETHER]
        branches = (
            sql.SQL("SELECT {}, version, checksum FROM {}").format(
                sql.Literal(name), sql.Identifier(name, "schema_migrations")
            )
            for name in some
        )
        for name, version, checksum in admin.execute(sql.SQL(" UNION ALL ").join(branches), prepare=False):
            ledgers[name][version] = checksum
    return ledgers


def _with_ledger(admin: Connection[Any], schemas: Sequence[str]) -> list[str]:
    rows = admin.execute(
        """
        SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = 'schema_migrations' AND n.nspname = ANY (%s)
        """,
        [list(schemas)],
    )
    return [name for (name,) in rows]


def record(admin: Connection[Any], migration: Migration) -> None:
    """Note on the schema of the search_path that this migration was applied."""
    admin.execute(
        "INSERT INTO schema_migrations (version, name, checksum) VALUES (%s, %s, %s)",
        [migration.version, migration.name, migration.checksum],
    )


def strike(admin: Connection[Any], version: int) -> None:
    """Note on the schema of the search_path that this migration was taken back."""
    admin.execute("DELETE FROM schema_migrations WHERE version = %s", [version])


def strike_definitions(admin: Connection[Any]) -> None:
    """Note on the schema of the search_path that its functions and rights are to be made anew, by whichever release."""
    strike(admin, DEFINITIONS)


def has(admin: Connection[Any], version: int) -> bool:
    """Return whether the schema of the search_path has this migration; make its ledger if it has none."""
    admin.execute(
        """
        CREATE TABLE IF NOT EXISTS schema_migrations (
            version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT clock_timestamp())
        """
    )
    return admin.execute("SELECT FROM schema_migrations WHERE version = %s", [version]).rowcount > 0


def any_step(admin: Connection[Any]) -> bool:
    """Return whether the schema of the search_path has had any migration that was not taken back."""
    return admin.execute("SELECT FROM schema_migrations WHERE version <> %s LIMIT 1", [DEFINITIONS]).rowcount > 0


def record_definitions(admin: Connection[Any], digest: str) -> None:
    """Note on the schema of the search_path what its functions and rights were made from."""
    admin.execute(
        """
        INSERT INTO schema_migrations (version, name, checksum) VALUES (%s, 'definitions', %s)
        ON CONFLICT (version) DO UPDATE SET checksum = excluded.checksum, applied_at = clock_timestamp()
        """,
        [DEFINITIONS, digest],
    )
