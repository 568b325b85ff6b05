"""Migrate all schemas to this release's version: each separately, so that a failure does not stop the rest."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from functools import partial
from threading import local
from typing import Any, TypeVar

from psycopg import Connection

from turno.tenancy.identity.logins import Logins
from turno.tenancy.rights.schemas import control_schema, tenant_schemas
from turno.tenancy.schema_migrations.files import APPLICATION, Migrations, packaged
from turno.tenancy.schema_migrations.ledger import Standing
from turno.tenancy.schema_migrations.one_schema import Outcome, Planned, plan, take_back, upgrade

Connect = Callable[[], Connection[Any]]  # opens a session in autocommit
Progress = Callable[[Outcome, int, int], None]
Task = TypeVar("Task")
Result = TypeVar("Result")


def status(admin: Connection[Any], logins: Logins, *, migrations: Migrations | None = None) -> list[Standing]:
    """Return where the control schema and every active tenant's schema are; one read for every 500 schemas.

    A tenant's schema has a second standing where there is an application with migrations.
    """
    migrations = migrations or packaged()
    (control,) = plan(admin, [control_schema(logins)], [migrations.control])
    # The first step creates the table of tenants.
    schemas = tenant_schemas(admin, logins) if control.standings[0].at else []
    plans = [control, *plan(admin, schemas, migrations.of_tenant)]
    return sorted(
        (plan_ for planned in plans for plan_ in planned.standings), key=lambda schema: schema.source == APPLICATION
    )


def migrate(
    connect: Connect,
    logins: Logins,
    *,
    jobs: int = 1,
    dry_run: bool = False,
    canary: str | None = None,
    redefine: bool = False,
    progress: Progress | None = None,
    migrations: Migrations | None = None,
) -> list[Outcome]:
    """Apply the pending steps: first the control schema, then the active tenants, `jobs` in parallel.

    Returns one outcome for each schema that had something pending or is in trouble: an empty list means there was
    nothing to do. A failed control schema or a failed `canary` (the slug of the tenant taken first) stops the rest.
    Functions and rights are defined again where their text has changed, and with `redefine` everywhere.
    """
    migrations = migrations or packaged()
    upgrade_schema = partial(upgrade, dry_run=dry_run, redefine=redefine)

    def tenants(chosen: Callable[[str], bool]) -> list[Outcome]:
        with connect() as admin:
            schemas = [schema for schema in tenant_schemas(admin, logins) if chosen(schema.slug)]
            planned = plan(admin, schemas, migrations.of_tenant)
        return fan_out(connect, _to_do(planned, redefine=redefine), upgrade_schema, jobs=jobs, progress=progress)

    with connect() as admin:
        control = plan(admin, [control_schema(logins)], [migrations.control])
        outcomes = [upgrade_schema(admin, planned) for planned in _to_do(control, redefine=redefine)]
    if failed(outcomes) or (dry_run and not control[0].standings[0].at):
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
    steps: int = 1,
    slugs: Sequence[str] | None = None,
    jobs: int = 1,
    dry_run: bool = False,
    progress: Progress | None = None,
    migrations: Migrations | None = None,
) -> list[Outcome]:
    """Roll back the application's last `steps` versions in the active tenants, or in the tenants with these slugs.

    A step without a .down.sql is a schema's error; the data that a step created is lost.
    """
    with connect() as admin:
        schemas = [schema for schema in tenant_schemas(admin, logins) if slugs is None or schema.slug in slugs]
        planned = plan(admin, schemas, [(migrations or packaged()).application])
    ahead = [plan_ for plan_ in planned if any(standing.at for standing in plan_.standings)]
    return fan_out(connect, ahead, partial(take_back, steps=steps, dry_run=dry_run), jobs=jobs, progress=progress)


def failed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes that an error stopped."""
    return [outcome for outcome in outcomes if outcome.error]


def fan_out(
    connect: Connect,
    tasks: Sequence[Task],
    work: Callable[[Connection[Any], Task], Result],
    *,
    jobs: int,
    progress: Callable[[Result, int, int], None] | None = None,
) -> list[Result]:
    """Return the results of `work` in the order of the tasks; `progress` receives them in the order of their ends.

    `jobs` threads have one session each, and open another one in place of a lost session. An interrupt drops the
    waiting tasks.
    """
    own = local()

    def run_task(task: Task) -> Result:
        if not hasattr(own, "admin") or own.admin.closed:
            own.admin = sessions.enter_context(closing(connect()))
        return work(own.admin, task)

    with ExitStack() as sessions, ThreadPoolExecutor(max(1, jobs), thread_name_prefix="migrate") as threads:
        futures = [threads.submit(run_task, task) for task in tasks]
        try:
            for ended, future in enumerate(as_completed(futures), start=1):
                result = future.result()
                if progress is not None:
                    progress(result, ended, len(futures))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]


def _to_do(planned: Iterable[Planned], *, redefine: bool) -> list[Planned]:
    return [plan_ for plan_ in planned if redefine or any(standing.behind for standing in plan_.standings)]
