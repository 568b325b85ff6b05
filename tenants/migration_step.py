"""One migration of one schema, up or down: a transaction of its own, as the schema's owner."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection, sql

from tenants import ledger
from tenants.apply_grants import apply_grants
from tenants.locks import held_schema, impatient, insistently, lock_schema
from tenants.migration_files import Migration, Script
from tenants.schemas import Schema


class Irreversible(Exception):
    """A migration without a .down.sql cannot be taken back."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


def step_up(admin: Connection[Any], schema: Schema, migration: Migration) -> bool:
    """Apply the migration with the rights that follow from it; return whether it was still to be done."""
    return insistently(
        lambda: _step(
            admin, schema, migration.version, migration.up, lambda: ledger.record(admin, migration), had=False
        )
    )


def step_down(admin: Connection[Any], schema: Schema, migration: Migration) -> bool:
    """Take the migration back; return whether it was there."""
    script = migration.down
    if script is None:
        raise Irreversible
    version = migration.version
    return insistently(lambda: _step(admin, schema, version, script, lambda: ledger.strike(admin, version), had=True))


def step_rights(admin: Connection[Any], schema: Schema) -> bool:
    """Make the schema's rights what the matrix says; return whether any was not."""

    def step() -> bool:
        with admin.transaction(), _as_owner(admin, schema):
            return _grant(admin, schema)

    return insistently(step)


def _grant(admin: Connection[Any], schema: Schema) -> bool:
    changed = apply_grants(admin, schema)
    ledger.record_rights(admin, schema)
    return changed


def _step(
    admin: Connection[Any], schema: Schema, version: int, script: Script, note: Callable[[], None], *, had: bool
) -> bool:
    if not script.transactional:
        return _step_by_statement(admin, schema, version, script, note, had=had)
    with admin.transaction(), _as_owner(admin, schema):
        # Looked up again under the lock: somebody else may have just done it.
        if ledger.has(admin, version) is not had:
            return False
        admin.execute(script.text.encode(), prepare=False)
        note()
        _grant(admin, schema)
    return True


def _step_by_statement(
    admin: Connection[Any], schema: Schema, version: int, script: Script, note: Callable[[], None], *, had: bool
) -> bool:
    """Run a file that may not run inside a transaction; after a crash the next run repeats it from the top."""
    with held_schema(admin, schema.name):
        with admin.transaction(), _as_owner(admin, schema):
            if ledger.has(admin, version) is not had:
                return False
        with _session_as_owner(admin, schema):
            for statement in script.statements:
                admin.execute(statement.encode(), prepare=False)
        with admin.transaction(), _as_owner(admin, schema):
            note()
            _grant(admin, schema)
    return True


@contextmanager
def _as_owner(admin: Connection[Any], schema: Schema) -> Iterator[None]:
    impatient(admin)
    lock_schema(admin, schema.name)
    admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(schema.owner)))
    admin.execute("SELECT set_config('search_path', %s, true)", [schema.path])
    yield


@contextmanager
def _session_as_owner(admin: Connection[Any], schema: Schema) -> Iterator[None]:
    admin.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(schema.owner)))
    admin.execute("SELECT set_config('search_path', %s, false)", [schema.path])
    try:
        yield
    finally:
        admin.execute("RESET ROLE")
        admin.execute("RESET search_path")
