"""Bring one schema to this release's version: steps of the library, functions and rights, steps of the application."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection, sql

from turno.errors import TurnoError
from turno.tenancy.rights.apply_grants import apply_grants
from turno.tenancy.rights.outside import grant_outside
from turno.tenancy.rights.privileges import live_objects
from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.definitions import define, digest_of
from turno.tenancy.schema_migrations.files import Files, Migration, Migrations, Script, packaged
from turno.tenancy.schema_migrations.ledger import (
    Standing,
    applied_here,
    read_ledgers,
    record,
    record_definitions,
    strike,
)
from turno.tenancy.schema_migrations.locks import hold_schema_lock, limit_lock_wait, lock_schema, retry_when_locked


@dataclass(slots=True)
class Outcome:
    """The result for one schema: the applied versions, in order, and the error that stopped it.

    `redefined` means that functions or rights were defined again without a new version.
    """

    schema: str
    slug: str
    done: tuple[str, ...] = ()
    error: str | None = None
    redefined: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A schema, and its state against the files of the library, then of the application."""

    schema: Schema
    parts: tuple[tuple[Standing, Files], ...]

    @property
    def standings(self) -> list[Standing]:
        """The standings, the library's first."""
        return [standing for standing, _ in self.parts]

    @property
    def behind(self) -> bool:
        """Whether an upgrade has something to do or to report."""
        return any(one.pending or one.trouble or one.redefine for one in self.standings)


class MigrationFailed(TurnoError):
    """A schema could not be brought to this release's version."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.slug or outcome.schema}: {outcome.error}")


class NotMigrated(TurnoError):
    """The state of a schema forbids a migration of this release; the message names the reason and the remedy."""


def plan(admin: Connection[Any], schemas: Sequence[Schema], parts: Iterable[Files]) -> list[Planned]:
    """Return the state of each of these schemas; their ledgers are read together."""
    names = [schema.name for schema in schemas]
    ledgers = [(files, read_ledgers(admin, names, files)) for files in parts if files.steps]
    return [
        Planned(one, tuple((Standing.of(one, found.get(one.name, {}), files), files) for files, found in ledgers))
        for one in schemas
    ]


def bring_up(admin: Connection[Any], schema: Schema, migrations: Migrations | None = None) -> tuple[str, ...]:
    """Apply the missing steps and all rights of a schema; return the applied versions or raise MigrationFailed."""
    found = migrations or packaged()
    (planned,) = plan(admin, [schema], found.of_tenant if schema.slug else [found.control])
    outcome = upgrade(admin, planned)
    if outcome.error:
        raise MigrationFailed(outcome)
    return outcome.done


def upgrade(admin: Connection[Any], planned: Planned, *, dry_run: bool = False) -> Outcome:
    """Apply the pending steps in order; after the library's steps, define the functions and the rights.

    The library's part is one transaction, except for steps that cannot run in a transaction: the work before them is
    committed. The application's part follows if the library's succeeded.
    """
    outcome = Outcome(planned.schema.name, planned.schema.slug)
    changed = dry_run or any(one.redefine for one in planned.standings)
    with _reported(outcome):
        for standing, files in planned.parts:
            _refuse(standing)
            if dry_run:
                outcome.done += standing.pending
            elif standing.pending or files.functions is not None:
                changed |= _upgrade(admin, planned.schema, standing, files, outcome)
    outcome.redefined = changed and not outcome.done and not outcome.error
    return outcome


def take_back(admin: Connection[Any], planned: Planned, *, steps: int, dry_run: bool = False) -> Outcome:
    """Roll back the last `steps` versions of the application, newest first."""
    outcome = Outcome(planned.schema.name, planned.schema.slug)
    with _reported(outcome):
        for standing, files in planned.parts:
            _refuse(standing)
            for version in sorted(files.steps.keys() - {*standing.pending}, reverse=True)[:steps]:
                down = partial(_down, admin, planned.schema, files.steps[version])
                outcome.done += (version,) if dry_run else retry_when_locked(down)
    return outcome


def _refuse(standing: Standing) -> None:
    if standing.trouble:
        raise NotMigrated(standing.trouble)


@contextmanager
def _reported(outcome: Outcome) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, TurnoError) as error:
        outcome.error = ": ".join([*getattr(error, "__notes__", []), str(error)])


def _upgrade(admin: Connection[Any], schema: Schema, standing: Standing, files: Files, outcome: Outcome) -> bool:
    """Apply the pending steps and add them to the outcome; return whether a right changed."""
    together: list[Migration] = []
    for step in (files.steps[version] for version in standing.pending):
        if step.up.transactional:
            together.append(step)
            continue
        if together:
            outcome.done += retry_when_locked(partial(_up, admin, schema, together))[0]
        together = []
        outcome.done += retry_when_locked(partial(_by_statement, admin, schema, step, step.up, back=False))
    versions, changed = retry_when_locked(partial(_up, admin, schema, together, files))
    outcome.done += versions
    return changed


def _up(
    admin: Connection[Any], schema: Schema, steps: Sequence[Migration], files: Files | None = None
) -> tuple[tuple[str, ...], bool]:
    """Apply steps, and define the functions and rights of `files`, in one transaction; return the changes."""
    changed = False
    with admin.transaction(), _as_owner(admin, schema):
        # Read under the lock: another process may have applied a step.
        before = applied_here(admin)
        missing = [step for step in steps if step.key not in before]
        for step in missing:
            with _named(step.name):
                admin.execute(step.up.text.encode(), prepare=False)
            record(admin, step)
        if files is not None:
            with _named("functions and rights"):
                changed = _define(admin, schema, files)
    return tuple(step.version for step in missing), changed


def _define(admin: Connection[Any], schema: Schema, files: Files) -> bool:
    if files.functions is None:
        return apply_grants(admin, schema, live_objects(admin, [schema.name]))
    changed = define(admin, schema, files)
    record_definitions(admin, digest_of(schema.matrix.digest, files))
    if schema.slug:
        # Only the owner of a table, or a superuser, may grant rights on it.
        admin.execute("SET LOCAL ROLE NONE")
        changed |= grant_outside(admin, schema)
    return changed


def _down(admin: Connection[Any], schema: Schema, step: Migration) -> tuple[str, ...]:
    if step.down is None:
        raise NotMigrated(f"{step.name}: a migration without a .down.sql cannot be rolled back")
    if not step.down.transactional:
        return _by_statement(admin, schema, step, step.down, back=True)
    with admin.transaction(), _as_owner(admin, schema):
        if step.key not in applied_here(admin):
            return ()
        with _named(step.name):
            admin.execute(step.down.text.encode(), prepare=False)
        strike(admin, step)
        apply_grants(admin, schema, live_objects(admin, [schema.name]))
    return (step.version,)


def _by_statement(
    admin: Connection[Any], schema: Schema, step: Migration, script: Script, *, back: bool
) -> tuple[str, ...]:
    """Run a file that cannot run inside a transaction; after a crash the next run repeats it from the top."""
    with hold_schema_lock(admin, schema.name):
        with admin.transaction(), _as_owner(admin, schema):
            if (step.key in applied_here(admin)) is not back:
                return ()
        with _session_as_owner(admin, schema), _named(step.name):
            for statement in script.statements:
                admin.execute(statement.encode(), prepare=False)
        with admin.transaction(), _as_owner(admin, schema):
            (strike if back else record)(admin, step)
    return (step.version,)


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
