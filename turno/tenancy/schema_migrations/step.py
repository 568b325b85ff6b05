"""Apply steps of one schema or take them back, in a transaction and as the schema's owner."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, sql

from turno.tenancy.rights.apply_grants import apply_grants
from turno.tenancy.rights.outside import grant_outside
from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.definitions import define, digest_of
from turno.tenancy.schema_migrations.files import Files, Migration, Script
from turno.tenancy.schema_migrations.ledger import has, record, record_definitions, strike
from turno.tenancy.schema_migrations.locks import hold_schema_lock, limit_lock_wait, lock_schema, retry_when_locked


class Stepped(NamedTuple):
    """The versions that one transaction applied, and whether a right deviated from the matrix."""

    versions: tuple[str, ...]
    rights_changed: bool


class Irreversible(Exception):
    """A migration without a .down.sql cannot be taken back."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


def step_up(admin: Connection[Any], schema: Schema, steps: Sequence[Migration], files: Files, *, last: bool) -> Stepped:
    """Apply these steps, after the `last` of them functions and rights, in one transaction.

    A step that cannot be in a transaction is alone. An error has the name of the step at which it happened as its
    note, and nothing of the transaction stays.
    """
    if steps and not steps[0].up.transactional:
        (step,) = steps
        return Stepped(retry_when_locked(lambda: _up_by_statement(admin, schema, step)), rights_changed=False)
    return retry_when_locked(lambda: _up(admin, schema, steps, files, last=last))


def step_down(admin: Connection[Any], schema: Schema, migration: Migration) -> bool:
    """Take the migration back; return whether it was there.

    Functions and rights stay as this release has them until another release is migrated to.
    """
    script = migration.down
    if script is None:
        raise Irreversible
    return retry_when_locked(lambda: _down(admin, schema, migration, script))


def _up(admin: Connection[Any], schema: Schema, steps: Sequence[Migration], files: Files, *, last: bool) -> Stepped:
    done: list[str] = []
    rights_changed = False
    with admin.transaction(), _as_owner(admin, schema):
        for step in steps:
            # Read again under the lock: another process may have applied the step.
            if not has(admin, step):
                with _named(step.name):
                    admin.execute(step.up.text.encode(), prepare=False)
                record(admin, step)
                done.append(step.version)
        if last:
            with _named("functions and rights"):
                rights_changed = _define(admin, schema, files)
                if schema.slug and files.functions is not None:
                    # Only the owner of a table, or a superuser, may grant rights on it.
                    admin.execute("SET LOCAL ROLE NONE")
                    rights_changed |= grant_outside(admin, schema)
    return Stepped(tuple(done), rights_changed)


def _define(admin: Connection[Any], schema: Schema, files: Files) -> bool:
    if files.functions is None:
        return apply_grants(admin, schema)
    changed = define(admin, schema, files)
    record_definitions(admin, digest_of(schema.matrix.digest, files))
    return changed


def _up_by_statement(admin: Connection[Any], schema: Schema, step: Migration) -> tuple[str, ...]:
    """Run a file that may not run inside a transaction; after a crash the next run repeats it from the top."""
    applied = _by_statement(admin, schema, step, step.up, note=lambda: record(admin, step), had=False)
    return (step.version,) if applied else ()


def _down(admin: Connection[Any], schema: Schema, step: Migration, script: Script) -> bool:
    def note() -> None:
        strike(admin, step)
        apply_grants(admin, schema)

    if not script.transactional:
        return _by_statement(admin, schema, step, script, note=note, had=True)
    with admin.transaction(), _as_owner(admin, schema):
        if not has(admin, step):
            return False
        admin.execute(script.text.encode(), prepare=False)
        note()
    return True


def _by_statement(
    admin: Connection[Any], schema: Schema, step: Migration, script: Script, *, note: Callable[[], None], had: bool
) -> bool:
    with hold_schema_lock(admin, schema.name):
        with admin.transaction(), _as_owner(admin, schema):
            if has(admin, step) is not had:
                return False
        with _session_as_owner(admin, schema), _named(f"version {step.version}"):
            for statement in script.statements:
                admin.execute(statement.encode(), prepare=False)
        with admin.transaction(), _as_owner(admin, schema):
            note()
    return True


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        error.add_note(name)
        raise


@contextmanager
def _as_owner(admin: Connection[Any], schema: Schema) -> Iterator[None]:
    limit_lock_wait(admin)
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
