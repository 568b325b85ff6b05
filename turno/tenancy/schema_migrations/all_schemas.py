"""Migrate all schemas to this release's version, or back: each separately, so that a failure does not stop the rest."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from psycopg import Connection

from turno.tenancy.identity.logins import Logins
from turno.tenancy.rights.schemas import control_schema, tenant_schemas
from turno.tenancy.schema_migrations.fan_out import Connect, fan_out, opened
from turno.tenancy.schema_migrations.files import Files, Migrations, packaged
from turno.tenancy.schema_migrations.ledger import Standing
from turno.tenancy.schema_migrations.one_schema import Outcome, Planned, downgrade, plan, upgrade

Progress = Callable[[Outcome, int, int], None]


def _silent(_outcome: Outcome, _ended: int, _total: int) -> None:
    pass


def status(admin: Connection[Any], logins: Logins, *, migrations: Migrations | None = None) -> list[Standing]:
    """Return where the control schema and every active tenant's schema are; one read for every 500 schemas.

    A tenant's schema has a second standing where there is an application with migrations.
    """
    migrations = migrations or packaged()
    control = plan(admin, [control_schema(logins)], migrations.control)
    # Without the first step there is no table of tenants to ask.
    schemas = tenant_schemas(admin, logins) if control[0].standing.at else []
    tenants = [one for files in _with_steps(migrations) for one in plan(admin, schemas, files)]
    return [planned.standing for planned in control + tenants]


def migrate(
    connect: Connect,
    logins: Logins,
    *,
    jobs: int = 1,
    dry_run: bool = False,
    canary: str | None = None,
    redefine: bool = False,
    over_newer: bool = False,
    progress: Progress = _silent,
    migrations: Migrations | None = None,
) -> list[Outcome]:
    """Apply the pending steps: first the control schema, then the active tenants, `jobs` in parallel.

    A tenant's schema gets the application's migrations after the library's, and none where those failed.

    Returns one outcome for each schema that had something pending or is in trouble: an empty list means there was
    nothing to do. A failed control schema or a failed `canary` (the slug of the tenant taken first) stops the rest.
    Functions and rights are made anew where their text has changed, and with `redefine` everywhere. A schema that a
    newer release has migrated is in trouble; with `over_newer` the control schema is not: its newer tables stay.
    """
    migrations = migrations or packaged()

    def one(admin: Connection[Any], planned: Planned) -> Outcome:
        return upgrade(admin, planned, dry_run=dry_run)

    def tenants(chosen: Callable[[str], bool]) -> list[Outcome]:
        ended: list[Outcome] = []
        for files in _with_steps(migrations):
            broken = {outcome.slug for outcome in failed(ended)}
            with opened(connect) as admin:
                schemas = [s for s in tenant_schemas(admin, logins) if chosen(s.slug) and s.slug not in broken]
                behind = _to_do(plan(admin, schemas, files), redefine=redefine and files.functions is not None)
            ended += fan_out(connect, behind, one, jobs=jobs, progress=progress)
        return ended

    with opened(connect) as admin:
        control = plan(admin, [control_schema(logins)], migrations.control)
        if over_newer:
            control = [planned.over_newer() for planned in control]
        outcomes = [one(admin, planned) for planned in _to_do(control, redefine=redefine)]
        if failed(outcomes) or (dry_run and not control[0].standing.at):
            return outcomes
    if canary is not None:
        outcomes += tenants(lambda slug: slug == canary)
        if failed(outcomes):
            return outcomes
    return outcomes + tenants(lambda slug: slug != canary)


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
    application: bool = False,
) -> list[Outcome]:
    """Roll back the last `steps` versions, or all above `to`, of the active tenants or of the tenants with these slugs.

    They are versions of the library, or of the `application`. A step without a .down.sql is a schema's error;
    the data that a step made is gone with it.
    """

    def take_back(admin: Connection[Any], planned: Planned) -> Outcome:
        return downgrade(admin, planned, to=to, steps=steps, dry_run=dry_run)

    with opened(connect) as admin:
        schemas = [s for s in tenant_schemas(admin, logins) if slugs is None or s.slug in slugs]
        found = migrations or packaged()
        planned = plan(admin, schemas, found.application if application else found.tenant)
    ahead = [one for one in planned if one.standing.at > (to or 0)]
    return fan_out(connect, ahead, take_back, jobs=jobs, progress=progress)


def failed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes that an error stopped."""
    return [outcome for outcome in outcomes if outcome.error]


def _with_steps(migrations: Migrations) -> list[Files]:
    return [files for files in migrations.of_tenant if files.steps]


def _to_do(planned: Iterable[Planned], *, redefine: bool) -> list[Planned]:
    return [one for one in planned if redefine or one.standing.pending or one.standing.trouble or one.standing.redefine]
