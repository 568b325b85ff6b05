"""Bring one schema to this release's version, or back, step by step up to the first error."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from tenants.ledger import Standing, read_ledgers
from tenants.migration_files import Migration, Migrations, packaged
from tenants.migration_step import Irreversible, step_down, step_rights, step_up
from tenants.schemas import Schema


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one schema: the versions done, in order, and the error that stopped it, if one did.

    `regranted` tells that its rights were made anew without a new version.
    """

    schema: str
    slug: str
    done: tuple[int, ...] = ()
    error: str | None = None
    regranted: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A schema and where it stands against the files."""

    schema: Schema
    standing: Standing
    known: Mapping[int, Migration]

    def outcome(self, done: Iterable[int] = (), *, error: str | None = None, regranted: bool = False) -> Outcome:
        """Return what happened to this schema."""
        return Outcome(self.schema.name, self.schema.slug, tuple(done), error, regranted)


class MigrationFailed(RuntimeError):
    """A schema could not be brought to this release's version."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.slug or outcome.schema}: {outcome.error}")


def plan(admin: Connection[Any], schemas: Sequence[Schema], known: Mapping[int, Migration]) -> list[Planned]:
    """Return where each of these schemas stands; their ledgers are read together."""
    ledgers = read_ledgers(admin, [schema.name for schema in schemas])
    return [Planned(s, Standing.of(s, ledgers.get(s.name, {}), known), known) for s in schemas]


def bring_up(admin: Connection[Any], schema: Schema, migrations: Migrations | None = None) -> tuple[int, ...]:
    """Apply what one schema lacks, and all its rights; return the versions applied or raise MigrationFailed."""
    migrations = migrations or packaged()
    (planned,) = plan(admin, [schema], migrations.tenant if schema.slug else migrations.control)
    outcome = upgrade(admin, planned)
    if outcome.error:
        raise MigrationFailed(outcome)
    return outcome.done


def upgrade(admin: Connection[Any], planned: Planned, *, dry_run: bool = False) -> Outcome:
    """Apply what is pending, in order; with nothing pending, make the rights what the matrix says."""
    pending = planned.standing.pending
    if planned.standing.trouble:
        return planned.outcome(error=planned.standing.trouble)
    if dry_run:
        return planned.outcome(pending, regranted=not pending)
    if pending:
        return _steps(admin, planned, pending, step_up)
    try:
        return planned.outcome(regranted=step_rights(admin, planned.schema))
    except psycopg.Error as error:
        return planned.outcome(error=f"rights: {error}")


def downgrade(
    admin: Connection[Any], planned: Planned, *, to: int | None, steps: int, dry_run: bool = False
) -> Outcome:
    """Take back the last `steps` versions, or all above `to`, newest first."""
    if planned.standing.trouble:
        return planned.outcome(error=planned.standing.trouble)
    applied = sorted(planned.known.keys() - set(planned.standing.pending), reverse=True)
    versions = applied[:steps] if to is None else [version for version in applied if version > to]
    if dry_run:
        return planned.outcome(versions)
    return _steps(admin, planned, versions, step_down)


Step = Callable[[Connection[Any], Schema, Migration], bool]


def _steps(admin: Connection[Any], planned: Planned, versions: Iterable[int], step: Step) -> Outcome:
    done: list[int] = []
    for migration in (planned.known[version] for version in versions):
        try:
            if step(admin, planned.schema, migration):
                done.append(migration.version)
        except (psycopg.Error, Irreversible) as error:
            return planned.outcome(done, error=f"{migration.name}: {error}")
    return planned.outcome(done)
