"""Bring one schema to this release's version, or back, step by step up to the first error."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import psycopg
from psycopg import Connection

from turno.errors import TurnoError
from turno.tenancy.rights.outside import ApplicationChanged
from turno.tenancy.rights.schemas import Schema
from turno.tenancy.schema_migrations.files import Files, Migration, Migrations, packaged
from turno.tenancy.schema_migrations.ledger import Standing, read_ledgers
from turno.tenancy.schema_migrations.step import Irreversible, step_down, step_up


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one schema: the applied versions, in order, and the error that stopped it.

    `redefined` means that functions and rights were redefined without a new version.
    """

    schema: str
    slug: str
    done: tuple[str, ...] = ()
    error: str | None = None
    redefined: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A schema and where it stands against the files."""

    schema: Schema
    standing: Standing
    files: Files

    def over_newer(self) -> Self:
        """Return the same without the steps of a newer release: its objects stay, and this release works with them."""
        return replace(self, standing=replace(self.standing, unknown=()))

    def outcome(self, done: Iterable[str] = (), *, error: str | None = None, redefined: bool = False) -> Outcome:
        """Return the result for this schema."""
        return Outcome(self.schema.name, self.schema.slug, tuple(done), error, redefined)


class MigrationFailed(TurnoError):
    """A schema could not be brought to this release's version."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.slug or outcome.schema}: {outcome.error}")


def plan(admin: Connection[Any], schemas: Sequence[Schema], files: Files) -> list[Planned]:
    """Return where each of these schemas stands; their ledgers are read together."""
    ledgers = read_ledgers(admin, [schema.name for schema in schemas], files)
    return [Planned(s, Standing.of(s, ledgers.get(s.name, {}), files), files) for s in schemas]


def bring_up(admin: Connection[Any], schema: Schema, migrations: Migrations | None = None) -> tuple[str, ...]:
    """Apply the missing steps and all rights of a schema; return the applied versions or raise MigrationFailed."""
    migrations = migrations or packaged()
    done: list[str] = []
    for files in migrations.of_tenant if schema.slug else (migrations.control,):
        if not files.steps:
            continue
        (planned,) = plan(admin, [schema], files)
        outcome = upgrade(admin, planned)
        if outcome.error:
            raise MigrationFailed(outcome)
        done += outcome.done
    return tuple(done)


def upgrade(admin: Connection[Any], planned: Planned, *, dry_run: bool = False) -> Outcome:
    """Apply the pending steps in order, then define the functions of the files and the rights of the matrix.

    This is one transaction, except for steps that cannot run in a transaction: the work before them is committed.
    """
    pending = planned.standing.pending
    if planned.standing.trouble:
        return planned.outcome(error=planned.standing.trouble)
    if dry_run:
        return planned.outcome(pending, redefined=not pending)
    done: list[str] = []
    rights_changed = False
    transactions = _transactions([planned.files.steps[version] for version in pending])
    for steps in transactions:
        last = steps is transactions[-1]
        try:
            stepped = step_up(admin, planned.schema, steps, planned.files, last=last)
        except (psycopg.Error, ApplicationChanged) as error:
            return planned.outcome(done, error=": ".join([*getattr(error, "__notes__", []), str(error)]))
        done += stepped.versions
        rights_changed = stepped.rights_changed
    return planned.outcome(done, redefined=not pending and (rights_changed or planned.standing.redefine))


def _transactions(steps: Sequence[Migration]) -> list[list[Migration]]:
    """Return the steps in groups that can share a transaction; the last is one that can, and may be empty."""
    transactions: list[list[Migration]] = []
    together: list[Migration] = []
    for step in steps:
        if step.up.transactional:
            together.append(step)
            continue
        transactions += [together, [step]] if together else [[step]]
        together = []
    return [*transactions, together]


def downgrade(
    admin: Connection[Any], planned: Planned, *, to: int | None, steps: int, dry_run: bool = False
) -> Outcome:
    """Take back the last `steps` versions, or all above `to`, newest first; steps of capabilities stay."""
    if planned.standing.trouble:
        return planned.outcome(error=planned.standing.trouble)
    pending = planned.standing.pending
    applied = sorted((v for v in planned.files.steps if v.isdecimal() and v not in pending), reverse=True)
    versions = applied[:steps] if to is None else [version for version in applied if int(version) > to]
    if dry_run:
        return planned.outcome(versions)
    done: list[str] = []
    for migration in (planned.files.steps[version] for version in versions):
        try:
            if step_down(admin, planned.schema, migration):
                done.append(migration.version)
        except (psycopg.Error, Irreversible) as error:
            return planned.outcome(done, error=f"{migration.name}: {error}")
    return planned.outcome(done)
