"""The commands `turno tenant …`."""

from __future__ import annotations

import json

import click

from turno.commands.output.jobs_view import as_json
from turno.commands.output.tables import print_table
from turno.environment import read_settings
from turno.store.operator import fairness
from turno.tenancy.identity.directory import Directory
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.access import reset_login, revoke_tokens
from turno.tenancy.provisioning.effects_in_doubt import set_doubt
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.provisioning.removal import remove_tenant
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.provisioner import migrations, provisioner
from turno.wiring.shared import logins


@click.group()
def tenant() -> None:
    """Add, list and remove tenants, and mend their access."""


@tenant.command("add")
@click.argument("slug")
@click.option("--company", required=True, help="The company it is a branch of.")
@click.option("--name", help="Add the company too, under this full name, if it is new.")
def add(slug: str, company: str, name: str | None) -> None:
    """Make the tenant SLUG with its schema and roles, or go on where that was stopped."""
    settings = read_settings()
    known = logins(settings)
    with opened(provisioner(settings)) as admin:
        if name:
            add_company(admin, known, company, name)
        added = add_tenant(admin, known, slug, company, migrations=migrations(settings))
    click.echo(f"tenant {added.slug} of {added.company}: schema {added.schema}")


@tenant.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tenants(*, as_json: bool) -> None:
    """List the active tenants."""
    known = logins(read_settings())
    with service_session(known, known.operator, application="turno-cli") as connection:
        found = Directory(lambda: connection).list_active()
    headers = ("slug", "company", "schema", "state")
    rows = [(t.slug, t.company, t.schema, t.state) for t in found]
    if as_json:
        click.echo(json.dumps([dict(zip(headers, row, strict=True)) for row in rows]))
    else:
        print_table(headers, rows)


@tenant.command("shares")
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
def shares(*, json_wanted: bool) -> None:
    """Show whether each tenant gets its turn: its waits of the last quarter of an hour, its share and its fair one."""
    known = logins(read_settings())
    with service_session(known, known.operator, application="turno-cli") as connection:
        rows = fairness.shares(connection)
    if json_wanted:
        click.echo(as_json(rows))
    else:
        headers = ("tenant", "waiting", "running", "oldest s", "ended", "wait p50 ms", "p95 ms", "share", "fair share")
        print_table(headers, [tuple(row.values()) for row in rows])


@tenant.command("remove")
@click.argument("slug")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(slug: str, *, yes: bool) -> None:
    """Remove the tenant SLUG with all its data: jobs, invoices, everything in its schema."""
    if not yes:
        click.confirm(f"Remove {slug} with all its data? Nothing brings it back", abort=True)
    with opened(provisioner(read_settings())) as admin:
        remove_tenant(admin, slug)
    click.echo(f"tenant {slug} was removed")


@tenant.command("reset-login")
@click.argument("slug")
def reset(slug: str) -> None:
    """Set a new password for the handlers' login of the tenant SLUG, for example after somebody changed it."""
    settings = read_settings()
    with opened(provisioner(settings)) as admin:
        epoch = reset_login(admin, logins(settings), slug)
    click.echo(f"tenant {slug}: its handlers log in with the password of epoch {epoch} from now on")


@tenant.command("doubt")
@click.argument("slug", required=False)
@click.option("--all", "everybody", is_flag=True, help="Every active tenant.")
@click.option("--over", is_flag=True, help="What happened since the backup is entered: trust the record again.")
def doubt(slug: str | None, *, everybody: bool, over: bool) -> None:
    """After a restore: have every outside effect of the tenant SLUG looked up before it is issued."""
    if everybody == (slug is not None):
        raise click.UsageError("name a tenant, or say --all")
    with opened(provisioner(read_settings())) as admin:
        changed = set_doubt(admin, slug, doubt=not over)
    state = (
        "its record of outside effects is trusted" if over else "outside effects without a record are looked up first"
    )
    for one in changed:
        click.echo(f"tenant {one}: {state}")


@tenant.command("revoke-tokens")
@click.argument("slug")
def revoke(slug: str) -> None:
    """Refuse every token for the tenant SLUG that was issued until now."""
    known = logins(read_settings())
    with service_session(known, known.operator, application="turno-cli") as connection:
        revoke_tokens(connection, slug)
    click.echo(f"tenant {slug}: tokens issued until now are refused, and so are those of the next 30 s")
