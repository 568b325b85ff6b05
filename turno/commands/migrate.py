"""The command `turno migrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turno.commands.output.migrate_report import Report, print_findings, print_standings
from turno.environment import read_settings
from turno.errors import InvalidSettings
from turno.store.engine import workers
from turno.tenancy.catalog.check import check as check_catalog
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.plan import PlanningConnection, plan_installation
from turno.tenancy.provisioning.provision import raise_connections
from turno.tenancy.rights.host_rights import foreign_schemas, hosts, public_rights
from turno.tenancy.schema_migrations import all_schemas
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import announce_handlers, migrations, provisioner, tenant_connections

if TYPE_CHECKING:
    from psycopg import Connection

    from turno.settings import Settings
    from turno.tenancy.schema_migrations.one_schema import Outcome

COUNT = click.IntRange(min=1)


@click.command()
@click.option("--status", is_flag=True, help="Show the version of every schema; exit status 1 if one is behind.")
@click.option("--check", is_flag=True, help="Show rights that differ from docs/roles.md; exit status 1 if any does.")
@click.option("--managed", is_flag=True, help="With --check: leave out what only a superuser could mend.")
@click.option("--rollback", type=COUNT, metavar="N", help="Roll back the application's last N migrations.")
@click.option("--tenant", "slugs", multiple=True, metavar="SLUG", help="Roll back only this tenant; may be repeated.")
@click.option("--canary", metavar="SLUG", help="Migrate this tenant first, and no other if it fails.")
@click.option(
    "--redefine", is_flag=True, help="Redefine functions and rights in every schema, not only where their text changed."
)
@click.option("--jobs", type=COUNT, default=4, show_default=True, metavar="N", help="Tenants at a time.")
@click.option("--plan", is_flag=True, help="Print the SQL that changes roles and rights; change nothing.")
@click.option(
    "--yes", is_flag=True, help="Install beside other roles, or roll back beside live workers, without a question."
)
@click.option("--dry-run", is_flag=True, help="Print the migrations to apply or to roll back; change nothing.")
def migrate(*, status: bool, check: bool, rollback: int | None, **options: Any) -> int:
    """Create missing roles and the control schema, then apply every pending migration to every schema.

    A failed schema stops no other, and the next run continues with the failed schema. Exit status 1 if a schema failed,
    or if TURNO_HANDLERS cannot be imported.
    """
    back = rollback is not None
    if status + check + back > 1:
        raise click.UsageError("--status, --check and --rollback exclude each other")
    if options["slugs"] and not back:
        raise click.UsageError("--tenant selects migrations to roll back: give --rollback, too")
    if options["managed"] and not check:
        raise click.UsageError("--managed filters the findings of --check: give both")
    settings = read_settings()
    logins, connect, files = logins_of(settings), provisioner(settings), migrations()
    if status:
        with opened(connect) as admin:
            return print_standings(all_schemas.status(admin, logins, migrations=files))
    if check:
        with opened(connect) as admin:
            found = check_catalog(admin, logins)
        return print_findings([one for one in found if not (options["managed"] and one.for_superuser)])
    progress = Report(dry_run=options["dry_run"], back=back)
    shared = {"jobs": options["jobs"], "dry_run": options["dry_run"], "progress": progress, "migrations": files}
    if rollback is not None:
        if not (options["dry_run"] or options["yes"]):
            _refuse_beside_workers(settings)
        slugs = list(options["slugs"]) or None
        return report(all_schemas.rollback(connect, logins, steps=rollback, slugs=slugs, **shared))
    if options["plan"]:
        return _plan(settings)
    unregistered = 0
    if not options["dry_run"]:
        _ask(settings, agreed=options["yes"])
        with opened(connect) as admin:
            progress.control(install(admin, logins))
            raise_connections(admin, tenant_connections(admin, settings))
            unregistered = _announce(admin, settings)
    how = {name: options[name] for name in ("canary", "redefine")}
    return report(all_schemas.migrate(connect, logins, **how, **shared)) or unregistered


def _plan(settings: Settings) -> int:
    with PlanningConnection.connect(settings.provisioner_url, autocommit=True) as admin:
        statements = plan_installation(admin, logins_of(settings), migrations=migrations())
    for statement in statements:
        click.echo(f"{statement};")
    return 0


def _ask(settings: Settings, *, agreed: bool) -> None:
    """Ask before an installation takes rights from PUBLIC where other roles or schemas are."""
    with opened(provisioner(settings)) as admin:
        roles, schemas = [host.name for host in hosts(admin)], foreign_schemas(admin)
        others = bool(public_rights(admin)) and bool(roles or schemas)
    if others and not agreed:
        click.echo(f"roles that keep the rights of PUBLIC: {', '.join(roles) or 'none'}")
        click.echo(f"schemas that stay as they are: {', '.join(schemas) or 'none'}")
        click.confirm("Install Turno beside them? --plan lists each statement, --yes answers this", abort=True)


def _refuse_beside_workers(settings: Settings) -> None:
    """Refuse to roll back while workers are alive: jobs that use the tables would fail until no attempt is left."""
    with opened(provisioner(settings)) as admin:
        alive = [row for row in workers.listed(admin) if row["silent"] <= settings.dead_after_seconds]
    if alive:
        named = ", ".join(f"{row['host']} {row['pid']}" for row in alive)
        raise click.ClickException(
            f"workers are alive ({named}), whose jobs would fail on older tables;"
            " stop the web and the workers first (--yes goes on all the same)"
        )


def _announce(admin: Connection[Any], settings: Settings) -> int:
    """Register the handlers' types and print them; return the exit status."""
    try:
        types = announce_handlers(admin, settings)
    except InvalidSettings as problem:
        # The schemas do not depend on the handlers: they are migrated all the same.
        click.echo(f"no job types were registered: {problem}", err=True)
        return 1
    if types:
        click.echo(f"{len(types)} job types registered: {', '.join(types)}")
    return 0


def report(outcomes: list[Outcome]) -> int:
    """Print what failed; return the exit status."""
    broken = all_schemas.failed(outcomes)
    for outcome in broken:
        click.echo(f"{outcome.slug or outcome.schema}: {outcome.error}", err=True)
    done = f"{len(outcomes) - len(broken)} schemas done, {len(broken)} failed"
    click.echo(done if outcomes else "no migration is pending")
    return 1 if broken else 0
