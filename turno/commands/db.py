"""The commands `turno db …`."""

import sys
from collections.abc import Sequence
from typing import Any

import click
from psycopg import Connection

from turno.commands.failures import printable
from turno.commands.output import print_message, show, wants_json
from turno.environment import read_settings
from turno.errors import InvalidSettings
from turno.jobs.label import counted
from turno.settings import Settings
from turno.store.engine.announcements import RAISE_VERSION, changed_payloads
from turno.tenancy.catalog import check as check_catalog
from turno.tenancy.provisioning.install import PlanningConnection, install, plan_installation
from turno.tenancy.provisioning.provision import raise_connections
from turno.tenancy.rights.public_rights import foreign_schemas, hosts, public_rights
from turno.tenancy.schema_migrations import all_schemas
from turno.tenancy.schema_migrations.ledger import Standing
from turno.tenancy.schema_migrations.one_schema import Outcome
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import (
    admin_session,
    announce_handlers,
    migrations,
    provisioner,
    provisioning,
    tenant_connections,
)


class Report:
    """Prints a line for each schema that has ended, one line for all on a terminal."""

    def __init__(self, *, dry_run: bool, back: bool) -> None:
        self._done = f"would {'lose' if back else 'get'}" if dry_run else "lost" if back else "got"

    def __call__(self, outcome: Outcome, ended: int, total: int) -> None:
        """Show one ended schema."""
        if not outcome.error:
            what = "functions and rights" if outcome.redefined else versions(outcome.done)
            end = "\x1b[K\r" if sys.stdout.isatty() and ended < total else "\n"
            line = f"{ended}/{total} {outcome.slug} {self._done} {what}"
            print_message(line) if wants_json() else print(line, end=end, flush=True)

    def control(self, done: Sequence[str]) -> None:
        """Print the changes of the schema that all tenants share."""
        if done:
            print_message(f"the control schema {self._done} {versions(done)}")


def print_standings(standings: Sequence[Standing]) -> int:
    """Print every schema's version; return 1 if one is behind or ahead of this release."""
    rows = [
        (
            s.slug or "(control)",
            s.schema,
            s.source,
            f"{s.at:04d}",
            versions(s.pending),
            "old" if s.redefine else "current",
            s.trouble,
        )
        for s in standings
    ]
    headers = ("tenant", "schema", "source", "at", "pending", "definitions", "trouble")
    show([dict(zip(headers, row, strict=True)) for row in rows], headers, rows)
    behind = [s for s in standings if (s.pending or s.redefine) and not s.trouble]
    if behind and not wants_json():
        print(
            f"{len(behind)} of {len(standings)} are behind this release: "
            "run `turno db migrate`, which continues with these."
        )
    return int(bool(behind) or any(s.trouble for s in standings))


def print_findings(findings: Sequence[object]) -> int:
    """Print the findings of the catalog check; return 1 if there are any."""
    for finding in findings:
        print_message(printable(str(finding)))
    print_message(counted(len(findings), "finding") if findings else "every right is as the matrix says")
    return int(bool(findings))


def versions(applied: Sequence[str]) -> str:
    """Return a list of versions as text."""
    return ", ".join(applied) or "nothing"


COUNT = click.IntRange(min=1)
jobs_option = click.option("--jobs", type=COUNT, default=4, show_default=True, metavar="N", help="Tenants at a time.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Print the migrations; change nothing.")


@click.command(epilog="Example: turno db migrate --canary suc0001")
@click.option("--canary", metavar="SLUG", help="Migrate this tenant first, and no other if it fails.")
@click.option(
    "--redefine", is_flag=True, help="Redefine the functions and rights of every schema, also unchanged ones."
)
@click.option("--yes", is_flag=True, help="Install beside other roles without a question.")
@jobs_option
@dry_run_option
def migrate(*, yes: bool, dry_run: bool, jobs: int, **how: Any) -> int:
    """Create missing roles and the control schema, then apply every pending migration to every schema.

    A failed schema stops no other, and the next run continues with the failed schema. Exit status 1 if a schema failed,
    or if TURNO_HANDLERS cannot be imported.
    """
    settings = read_settings()
    logins, connect, files = logins_of(settings), provisioner(settings), migrations()
    progress = Report(dry_run=dry_run, back=False)
    unregistered = 0
    if not dry_run:
        with admin_session(settings) as admin:
            _ask(admin, agreed=yes)
            progress.control(install(admin, logins))
            raise_connections(admin, tenant_connections(admin, settings))
            unregistered = _announce(admin, settings)
    outcomes = all_schemas.migrate(
        connect, logins, jobs=jobs, dry_run=dry_run, progress=progress, migrations=files, **how
    )
    return report(outcomes) or unregistered


@click.command(epilog="Example: turno db rollback --steps 1 --tenant suc0001")
@click.option("--steps", type=COUNT, default=1, show_default=True, metavar="N", help="Number of migrations.")
@click.option("--tenant", "slugs", multiple=True, metavar="SLUG", help="Roll back only this tenant; may be repeated.")
@click.option("--yes", is_flag=True, help="Roll back beside live workers.")
@jobs_option
@dry_run_option
def rollback(*, steps: int, slugs: tuple[str, ...], yes: bool, **how: Any) -> int:
    """Roll back the application's last migrations. Exit status 1 if a schema failed."""
    settings = read_settings()
    if not (how["dry_run"] or yes):
        _refuse_beside_workers(settings)
    progress = Report(dry_run=how["dry_run"], back=True)
    return report(
        all_schemas.rollback(
            provisioner(settings),
            logins_of(settings),
            steps=steps,
            slugs=list(slugs) or None,
            progress=progress,
            migrations=migrations(),
            **how,
        )
    )


@click.command(epilog="Example: turno db status")
def status() -> int:
    """Show the version of every schema. Exit status 1 if a schema is behind."""
    with provisioning() as (admin, logins):
        return print_standings(all_schemas.status(admin, logins, migrations=migrations()))


@click.command(epilog="Example: turno db check --managed")
@click.option("--managed", is_flag=True, help="Omit findings that only a superuser can correct.")
def check(*, managed: bool) -> int:
    """Show rights that differ from the rights of this release. Exit status 1 if a right differs."""
    with provisioning() as (admin, logins):
        findings = check_catalog(admin, logins)
    return print_findings([finding for finding in findings if not (managed and finding.for_superuser)])


@click.command(epilog="Example: turno db plan")
def plan() -> None:
    """Print the SQL that `turno db migrate` would run on roles and rights; change nothing."""
    settings = read_settings()
    with PlanningConnection.connect(settings.provisioner_url, autocommit=True) as admin:
        statements = plan_installation(admin, logins_of(settings), migrations=migrations())
    for statement in statements:
        print_message(f"{statement};")


def _ask(admin: Connection[Any], *, agreed: bool) -> None:
    """Ask before an installation takes rights from PUBLIC where other roles or schemas are."""
    roles, schemas = [host.name for host in hosts(admin)], foreign_schemas(admin)
    if (roles or schemas) and public_rights(admin) and not agreed:
        click.echo(f"roles that keep the rights of PUBLIC: {', '.join(roles) or 'none'}")
        click.echo(f"schemas that stay as they are: {', '.join(schemas) or 'none'}")
        click.confirm(
            "Install Turno beside them? `turno db plan` prints each statement, --yes answers this", abort=True
        )


def _refuse_beside_workers(settings: Settings) -> None:
    """Refuse to roll back while workers are alive: jobs that use the tables would fail until no attempt is left."""
    with admin_session(settings) as admin:
        alive = admin.execute(
            "SELECT host || ' ' || pid FROM turno.workers"
            " WHERE alive_at >= clock_timestamp() - make_interval(secs => %s) ORDER BY alive_at",
            (settings.dead_after_seconds,),
        ).fetchall()
    if alive:
        named = ", ".join(worker for (worker,) in alive)
        raise click.ClickException(
            f"workers are alive ({named}), whose jobs would fail on older tables;"
            " stop the web and the workers first (--yes continues nevertheless)"
        )


def _announce(admin: Connection[Any], settings: Settings) -> int:
    """Register the handlers' types and print them; return the exit status."""
    try:
        types = announce_handlers(admin, settings)
    except InvalidSettings as problem:
        # The schemas do not depend on the handlers: they are migrated all the same.
        click.echo(f"no job types were registered: {problem}", err=True)
        return 1
    for change in changed_payloads(admin):
        click.echo(f"{change}: {RAISE_VERSION}", err=True)
    if types:
        print_message(f"{counted(len(types), 'job type')} registered: {', '.join(types)}", types=types)
    return 0


def report(outcomes: list[Outcome]) -> int:
    """Print the failed migrations; return the exit status."""
    broken = all_schemas.failed(outcomes)
    for outcome in broken:
        click.echo(f"{outcome.slug or outcome.schema}: {outcome.error}", err=True)
    done = f"{counted(len(outcomes) - len(broken), 'schema')} done, {len(broken)} failed"
    print_message(done if outcomes else "no migration is pending")
    return 1 if broken else 0
