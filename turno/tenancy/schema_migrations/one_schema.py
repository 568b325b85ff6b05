"""Bring one schema to this release's version: steps of the library, functions and rights, steps of the application.

Each function and table has the comment `turno/<source>`. Objects of a source without a folder stay, so that its
triggers keep its tables consistent, and have no rights.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, sql

from turno.capability import LIBRARY, installed, load
from turno.errors import TurnoError
from turno.tenancy.rights.live import KIND_SQL, LiveObject, apply_grants, live_objects
from turno.tenancy.rights.matrix import Kind
from turno.tenancy.rights.schemas import Schema, outside
from turno.tenancy.schema_migrations import ledger
from turno.tenancy.schema_migrations.files import (
    Files,
    Migration,
    Migrations,
    is_transactional,
    packaged,
    statements_of,
)
from turno.tenancy.schema_migrations.ledger import Standing
from turno.tenancy.schema_migrations.locks import hold_schema_lock, limit_lock_wait, lock_schema, retry_when_locked

UNCHECKED = "SET LOCAL check_function_bodies = {};"


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


class Planned(NamedTuple):
    """A schema, and its state against the files of the library, then of the application."""

    schema: Schema
    standings: list[Standing]


class MigrationFailed(TurnoError):
    """A schema could not be brought to this release's version."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.slug or outcome.schema}: {outcome.error}")


class NotMigrated(TurnoError):
    """The state of a schema forbids a migration of this release; the message names the reason and the remedy."""


def plan(admin: Connection[Any], schemas: Sequence[Schema], parts: Iterable[Files]) -> list[Planned]:
    """Return the state of each of these schemas; their ledgers are read together."""
    names = [schema.name for schema in schemas]
    ledgers = [(files, ledger.read_ledgers(admin, names, files)) for files in parts if files.steps]
    return [
        Planned(schema, [Standing.of(schema, applied.get(schema.name, {}), files) for files, applied in ledgers])
        for schema in schemas
    ]


def bring_up(admin: Connection[Any], schema: Schema, migrations: Migrations | None = None) -> tuple[str, ...]:
    """Apply the missing steps and all rights of a schema; return the applied versions or raise MigrationFailed."""
    sources = migrations or packaged()
    (planned,) = plan(admin, [schema], sources.of_tenant if schema.slug else [sources.control])
    outcome = upgrade(admin, planned)
    if outcome.error:
        raise MigrationFailed(outcome)
    return outcome.done


def upgrade(admin: Connection[Any], planned: Planned, *, dry_run: bool = False, redefine: bool = True) -> Outcome:
    """Apply the pending steps in order; after the library's steps, define the functions and the rights.

    Without `redefine` a part without pending steps, of which neither a function nor a right differs, is left out. The
    library's part is one transaction, except for steps that cannot run in a transaction: the work before them is
    committed. The application's part follows if the library's succeeded.
    """
    outcome = Outcome(planned.schema.name, planned.schema.slug)
    changed = dry_run or any(standing.redefine for standing in planned.standings)
    with _reported(outcome):
        for standing in planned.standings:
            _refuse(standing)
            files = standing.files
            if dry_run:
                outcome.done += standing.pending
                continue
            together: list[Migration] = []
            for step in (files.steps[version] for version in standing.pending):
                together.append(step)
                if not is_transactional(step.up):
                    if together[:-1]:
                        outcome.done += _run(admin, planned.schema, files, together[:-1], define=False)[0]
                    outcome.done += _run_by_statement(admin, planned.schema, files, step)
                    together = []
            if standing.pending or standing.redefine or (redefine and files.functions):
                done, redefined = _run(admin, planned.schema, files, together)
                outcome.done += done
                changed |= redefined
    outcome.redefined = changed and not outcome.done and not outcome.error
    return outcome


def take_back(admin: Connection[Any], planned: Planned, *, steps: int, dry_run: bool = False) -> Outcome:
    """Roll back the last `steps` versions of the application, newest first."""
    outcome = Outcome(planned.schema.name, planned.schema.slug)
    with _reported(outcome):
        for standing in planned.standings:
            _refuse(standing)
            files = standing.files
            for version in sorted(files.steps.keys() - {*standing.pending}, reverse=True)[:steps]:
                step = files.steps[version]
                if dry_run:
                    outcome.done += (version,)
                elif step.down is None:
                    raise NotMigrated(f"{step.name}: a migration without a .down.sql cannot be rolled back")
                elif is_transactional(step.down):
                    outcome.done += _run(admin, planned.schema, files, [step], back=True)[0]
                else:
                    outcome.done += _run_by_statement(admin, planned.schema, files, step, back=True)
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


@retry_when_locked
def _run(
    admin: Connection[Any],
    schema: Schema,
    files: Files,
    steps: Sequence[Migration],
    *,
    back: bool = False,
    define: bool = True,
) -> tuple[tuple[str, ...], bool]:
    """Apply steps of `files` or take them back, and define the functions and rights, in one transaction.

    Returns the versions, and whether a right changed.
    """
    changed = False
    with admin.transaction(), _as_owner(admin, schema):
        # Read under the lock: another process may have applied a step.
        before = ledger.applied_steps(admin)
        missing = [step for step in steps if (step.key in before) is back]
        if missing and define and files.declarations:
            admin.execute(_text(schema, files, files.declarations).encode(), prepare=False)
        for step in missing:
            with _named(step.name):
                admin.execute(_script(schema, files, step, back=back).encode(), prepare=False)
            _note(admin, step, back=back)
        if define:
            with _named("functions and rights"):
                changed = _define(admin, schema, files)
    return tuple(step.version for step in missing), changed


@retry_when_locked
def _run_by_statement(
    admin: Connection[Any], schema: Schema, files: Files, step: Migration, *, back: bool = False
) -> tuple[str, ...]:
    """Run a file that cannot run inside a transaction; after a crash the next run repeats it from the top."""
    with hold_schema_lock(admin, schema.name):
        with admin.transaction(), _as_owner(admin, schema):
            if (step.key in ledger.applied_steps(admin)) is not back:
                return ()
        _become_owner(admin, schema, local=False)
        try:
            with _named(step.name):
                for statement in statements_of(_script(schema, files, step, back=back)):
                    admin.execute(statement.encode(), prepare=False)
        finally:
            admin.execute("RESET ROLE")
            admin.execute("RESET search_path")
        with admin.transaction(), _as_owner(admin, schema):
            _note(admin, step, back=back)
    return (step.version,)


def _script(schema: Schema, files: Files, step: Migration, *, back: bool) -> str:
    return _text(schema, files, (step.down or "") if back else step.up)


def _text(schema: Schema, files: Files, text: str) -> str:
    return files.in_schema(text, schema.name) if schema.slug else text


def _note(admin: Connection[Any], step: Migration, *, back: bool) -> None:
    if back:
        ledger.strike(admin, *step.key)
    else:
        ledger.record(admin, *step.key, step.name, step.checksum)


def _define(admin: Connection[Any], schema: Schema, files: Files) -> bool:
    """Define the functions and rights as the files and the matrix state; return whether a right changed.

    A function of a present source that is no longer in the files is dropped; other functions stay.
    Runs as the schema's owner on its search_path, inside the caller's transaction.
    """
    if not files.functions:
        return apply_grants(admin, schema, live_objects(admin, [schema.name]))
    # One message, unchecked until the first call outside the tests: both are expensive for each tenant.
    texts = (UNCHECKED.format("off"), _text(schema, files, files.functions), UNCHECKED.format("on"))
    admin.execute("\n".join(texts).encode(), prepare=False)
    sources = {schema.own_name(function): source for function, source in files.function_sources.items()}
    kept: list[LiveObject] = []
    for object_ in live_objects(admin, [schema.name]):
        kind, name = object_.target
        if kind is Kind.FUNCTION and object_.source in files.sources and name not in sources:
            admin.execute(sql.SQL("DROP FUNCTION {}").format(sql.Identifier(name)))
        else:
            kept.append(object_)
    _comment(admin, schema, sources, kept)
    changed = apply_grants(admin, schema, kept)
    ledger.record(admin, *ledger.DEFINITIONS, ledger.digest_of(schema, files))
    if schema.slug:
        # Only the owner of a table, or a superuser, may grant rights on it.
        admin.execute("SET LOCAL ROLE NONE")
        for further in outside():
            changed |= load(further.grant)(admin, schema)
    return changed


def _comment(admin: Connection[Any], schema: Schema, functions: Mapping[str, str], live: Iterable[LiveObject]) -> None:
    """Write the source of each function and relation into the catalog."""
    relations = dict.fromkeys(schema.matrix.relations, LIBRARY)
    for capability in installed():
        relations |= dict.fromkeys(
            (capability.tenant if schema.slug else capability.control).relations, capability.name
        )
    comments = []
    for entry in live:
        kind, name = entry.target
        source = (functions if kind is Kind.FUNCTION else relations).get(name)
        if source not in (None, entry.source):
            word = sql.SQL("VIEW") if kind is Kind.VIEW else KIND_SQL[kind]
            values = word, sql.Identifier(name), sql.Literal(f"turno/{source}")
            comments.append(sql.SQL("COMMENT ON {} {} IS {}").format(*values))
    if comments:
        admin.execute(sql.SQL(";\n").join(comments))


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
    _become_owner(admin, schema, local=True)
    yield


def _become_owner(admin: Connection[Any], schema: Schema, *, local: bool) -> None:
    admin.execute(
        "SELECT set_config('role', %s, %s), set_config('search_path', %s, %s)",
        [schema.owner, local, schema.path, local],
    )
