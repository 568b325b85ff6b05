"""The commands `turno tenant …` and `turno company …`."""

import click

from turno.commands.output import print_message, show
from turno.commands.run_time_settings import set_settings
from turno.environment import read_settings
from turno.store.operator import counts
from turno.tenancy.provisioning.provision import add_company, add_tenant, reset_login, reset_report_login, revoke_tokens
from turno.tenancy.provisioning.removal import remove_tenant, what_removal_takes
from turno.wiring.logins import operator_session
from turno.wiring.provisioner import migrations, provisioning, tenant_connections

SHARE_HEADERS = (
    *("tenant", "waiting", "running", "cap", "ended", "wait p50 ms", "p95 ms", "oldest s", "share", "fair share"),
)


@click.group()
def tenant() -> None:
    """Add, list, set and remove tenants, and mend their access."""


tenant.add_command(set_settings)


@tenant.command("add", epilog="Example: turno tenant add suc0001 --company acme --name Acme")
@click.argument("slug")
@click.option("--company", required=True, help="The company of the tenant.")
@click.option("--name", help="Full name of the company, which is added if it is new.")
@click.option("--parent", help="Tenant of the company whose business data the handlers may read.")
def add(slug: str, company: str, name: str | None, parent: str | None) -> None:
    """Create the tenant SLUG with its schema and roles, or complete an interrupted creation."""
    with provisioning() as (admin, logins):
        if name:
            add_company(admin, logins, company, name)
        connections = tenant_connections(admin, read_settings())
        added = add_tenant(
            admin, logins, slug, company, parent=parent, connections=connections, migrations=migrations()
        )
    below = f", a child of {added.parent}" if added.parent else ""
    print_message(f"tenant {added.slug} of {added.company}{below}: schema {added.schema}")


@tenant.command("list", epilog="Example: turno tenant list --json")
def list_tenants() -> None:
    """List the active tenants, each with the time of its pause."""
    with operator_session(read_settings()) as operator:
        tenants = counts.tenants(operator)
    rows = [
        {"slug": row["tenant"], "company": row["company"], "schema": row["schema"], "state": "active"}
        | {"paused_at": row["paused_at"]}
        for row in tenants
    ]
    show(rows, ("slug", "company", "schema", "state", "paused since"), [tuple(row.values()) for row in rows])


@tenant.command("shares", epilog="Example: turno tenant shares --json")
def shares() -> None:
    """Show each tenant's waits of the last 15 minutes, its cap, its share of the workers and its fair share."""
    with operator_session(read_settings()) as operator:
        tenants = counts.worst_tenants(operator)
    digits = {"oldest_wait": 1, "share": 3, "fair_share": 3}
    rows = [
        {"slug": row["tenant"]}
        | {name: row[name] for name in ("waiting", "running", "cap", "ended", "wait_p50_ms", "wait_p95_ms")}
        | {name: row[name] if row[name] is None else round(row[name], places) for name, places in digits.items()}
        for row in tenants
    ]
    show(rows, SHARE_HEADERS, [tuple(row.values()) for row in rows])


@tenant.command("remove", epilog="Example: turno tenant remove suc0001 --dry-run")
@click.argument("slug")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option("--dry-run", is_flag=True, help="List each object, right and role to remove; change nothing.")
def remove(slug: str, *, yes: bool, dry_run: bool) -> None:
    """Remove the tenant SLUG, its roles and its schema with all jobs; an adopted schema stays unchanged."""
    if not (dry_run or yes):
        click.confirm(f"Remove {slug} with all its data? Nothing brings it back", abort=True)
    with provisioning() as (admin, logins):
        if dry_run:
            for line in what_removal_takes(admin, slug):
                print_message(line)
            return
        remove_tenant(admin, logins, slug)
    print_message(f"tenant {slug} was removed")


@tenant.command("reset-login", epilog="Example: turno tenant reset-login suc0001")
@click.argument("slug")
def reset(slug: str) -> None:
    """Set a new password for the handlers' login of the tenant SLUG, for example after an unwanted change."""
    with provisioning() as (admin, logins):
        epoch = reset_login(admin, logins, slug)
    print_message(f"tenant {slug}: its handlers log in with the password of epoch {epoch} from now on")


@tenant.command("revoke-tokens", epilog="Example: turno tenant revoke-tokens suc0001")
@click.argument("slug")
def revoke(slug: str) -> None:
    """Refuse every token for the tenant SLUG that was issued until now."""
    with operator_session(read_settings()) as operator:
        revoke_tokens(operator, slug)
    print_message(f"tenant {slug}: tokens issued until now, and during the next 30 s, are refused")


@click.group()
def company() -> None:
    """Add companies, which group tenants, and mend the access of their reports."""


@company.command("add", epilog="Example: turno company add acme --name Acme")
@click.argument("slug")
@click.option("--name", help="The company's full name; by default its slug.")
def add_to_companies(slug: str, name: str | None) -> None:
    """Add the company SLUG, unless it exists."""
    with provisioning() as (admin, logins):
        added = add_company(admin, logins, slug, name or slug)
    print_message(f"company {added.slug}: {added.name}")


@company.command("reset-login", epilog="Example: turno company reset-login acme")
@click.argument("slug")
def reset_reports(slug: str) -> None:
    """Set a new password for the reports' login of the company SLUG, for example after a manual change."""
    with provisioning() as (admin, logins):
        epoch = reset_report_login(admin, logins, slug)
    print_message(f"company {slug}: its reports log in with the password of epoch {epoch} from now on")
