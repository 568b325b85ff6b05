"""Bring every schema to this release's version, or back: each apart from the others, and one failure stops no other."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from tenants.fan_out import Connect, fan_out, opened
from tenants.ledger import Standing, read_ledgers
from tenants.logins import Logins
from tenants.migration_files import Migration, Migrations, packaged
from tenants.migration_step import Irreversible, step_down, step_up
from tenants.schemas import Schema, control_schema, tenant_schemas


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one schema: the versions done, in order, and the error that stopped it, if one did."""

    schema: str
    slug: str
    done: tuple[int, ...]
    error: str | None = None


Progress = Callable[[Outcome, int, int], None]
Planned = tuple[Schema, Standing]


def _silent(_outcome: Outcome, _ended: int, _total: int) -> None:
    pass


def status(admin: Connection[Any], logins: Logins, *, migrations: Migrations | None = None) -> list[Standing]:
    """Return where the control schema and every active tenant's schema are, whatever their number in two reads."""
    migrations = migrations or packaged()
    control = _stand(admin, [control_schema(logins)], migrations.control)
    tenants = tenant_schemas(admin, logins) if control[0][1].at else []
    return [standing for _, standing in control + _stand(admin, tenants, migrations.tenant)]


def migrate(
    connect: Connect,
    logins: Logins,
    *,
    jobs: int = 1,
    dry_run: bool = False,
    canary: str | None = None,
    progress: Progress = _silent,
    migrations: Migrations | None = None,
) -> list[Outcome]:
    """Apply what is pending: the control schema first, then the active tenants, `jobs` at a time.

    Returns one outcome for each schema that had something pending or is in trouble: an empty list means there was
    nothing to do. A failed control schema or a failed `canary` (the slug of the tenant taken first) stops the rest.
    """
    migrations = migrations or packaged()

    def upgrade(admin: Connection[Any], planned: Planned) -> Outcome:
        return migrate_schema(admin, planned, migrations.tenant, dry_run=dry_run)

    with opened(connect) as admin:
        control = [
            migrate_schema(admin, planned, migrations.control, dry_run=dry_run)
            for planned in _behind(_stand(admin, [control_schema(logins)], migrations.control))
        ]
        if failed(control) or (dry_run and not read_ledgers(admin, ["turno"])):
            return control
        behind = _behind(_stand(admin, tenant_schemas(admin, logins), migrations.tenant))
    first = fan_out(connect, [p for p in behind if p[0].slug == canary], upgrade, jobs=1, progress=progress)
    if failed(first):
        return control + first
    rest = [planned for planned in behind if planned[0].slug != canary]
    return control + first + fan_out(connect, rest, upgrade, jobs=jobs, progress=progress)


def rollback(
    connect: Connect,
    logins: Logins,
    *,
    to: int | None = None,
    steps: int = 1,
    slugs: Sequence[str] | None = None,
    jobs: int = 1,
    dry_run: bool = False,
    progress: Progress = _silent,
    migrations: Migrations | None = None,
) -> list[Outcome]:
    """Take back the last `steps` versions, or all above `to`, from the active tenants or those with these slugs.

    A step without a .down.sql is a schema's error; the data that a step made is gone with it.
    """
    known = (migrations or packaged()).tenant

    def downgrade(admin: Connection[Any], planned: Planned) -> Outcome:
        schema, standing = planned
        applied = sorted(known.keys() - set(standing.pending), reverse=True)
        versions = applied[:steps] if to is None else [version for version in applied if version > to]
        if dry_run or standing.trouble:
            return Outcome(schema.name, schema.slug, tuple(versions) if dry_run else (), standing.trouble)
        return _steps(admin, schema, [known[version] for version in versions], step_down)

    with opened(connect) as admin:
        tenants = [s for s in tenant_schemas(admin, logins) if slugs is None or s.slug in slugs]
        ahead = [planned for planned in _stand(admin, tenants, known) if planned[1].at > (to or 0)]
    return fan_out(connect, ahead, downgrade, jobs=jobs, progress=progress)


def failed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes that an error stopped."""
    return [outcome for outcome in outcomes if outcome.error]


class MigrationFailed(RuntimeError):
    """A schema could not be brought to this release's version."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.slug or outcome.schema}: {outcome.error}")


def bring_up(admin: Connection[Any], schema: Schema, migrations: Migrations | None = None) -> tuple[int, ...]:
    """Apply what one schema lacks, and its rights; return the versions applied or raise MigrationFailed."""
    migrations = migrations or packaged()
    known = migrations.tenant if schema.slug else migrations.control
    ((_, standing),) = _stand(admin, [schema], known)
    outcome = migrate_schema(admin, (schema, standing), known)
    if outcome.error:
        raise MigrationFailed(outcome)
    return outcome.done


def migrate_schema(
    admin: Connection[Any], planned: Planned, known: Mapping[int, Migration], *, dry_run: bool = False
) -> Outcome:
    """Apply what is pending to one schema, in order, up to the first error."""
    schema, standing = planned
    if dry_run or standing.trouble:
        return Outcome(schema.name, schema.slug, standing.pending if dry_run else (), standing.trouble)
    return _steps(admin, schema, [known[version] for version in standing.pending], step_up)


def _steps(
    admin: Connection[Any],
    schema: Schema,
    steps: Iterable[Migration],
    step: Callable[[Connection[Any], Schema, Migration], bool],
) -> Outcome:
    done: list[int] = []
    for migration in steps:
        try:
            if step(admin, schema, migration):
                done.append(migration.version)
        except (psycopg.Error, Irreversible) as error:
            return Outcome(schema.name, schema.slug, tuple(done), f"{migration.name}: {error}")
    return Outcome(schema.name, schema.slug, tuple(done))


def _stand(admin: Connection[Any], schemas: Sequence[Schema], known: Mapping[int, Migration]) -> list[Planned]:
    ledgers = read_ledgers(admin, [schema.name for schema in schemas])
    return [(s, Standing.of(s.name, s.slug, ledgers.get(s.name, {}), known)) for s in schemas]


def _behind(planned: Iterable[Planned]) -> list[Planned]:
    return [(schema, standing) for schema, standing in planned if standing.pending or standing.trouble]
