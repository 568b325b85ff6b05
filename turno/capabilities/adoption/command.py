"""The commands `turno schema …`, `turno host …` and `turno db uninstall`."""

from typing import Any, TextIO

import click
import psycopg
from psycopg import Connection

from turno.administration import Administration
from turno.capabilities.adoption.adopted import WRITE
from turno.capabilities.adoption.adopting import Listed, adopt, read_adopted, read_list
from turno.capabilities.adoption.program import adopt as adopt_by_program
from turno.capabilities.adoption.sharing import share, unshare
from turno.capabilities.adoption.uninstall import StillInUse, count_open_jobs, obstacles, plan_removal
from turno.capabilities.adoption.uninstall import uninstall as remove_turno
from turno.commands.output import print_message
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.jobs.label import counted
from turno.store.operator.run_time_settings import record
from turno.tenancy.rights.public_rights import hosts, join_host
from turno.tenancy.schema_migrations.all_schemas import fan_out
from turno.wiring.logins import logins_of
from turno.wiring.provisioner import admin_session, migrations, provisioner, provisioning, tenant_connections

STEP = 100  # tenants between two lines of progress


class UnknownRole(TurnoError):
    """The server has no such role, or it is Turno's, a superuser's or the server's own."""


@click.group()
def schema() -> None:
    """Adopt schemas of the application for tenants; share look-up schemas with all handlers."""


@schema.command("adopt", epilog="Example: turno schema adopt suc0001 --rights orders:write,customers:read")
@click.argument("name", metavar="SCHEMA", required=False)
@click.option("--tenant", "slug", metavar="SLUG", help="The tenant; by default the name of the schema.")
@click.option("--company", metavar="SLUG", help="The company of the tenant, which is added if it is new.")
@click.option("--owner", metavar="ROLE", help="Role that creates the schema's tables; by default the schema's owner.")
@click.option("--rights", default=WRITE, show_default=True, help="read, write, or orders:write,customers:read.")
@click.option(
    "--from", "source", type=click.File(encoding="utf-8-sig"), help="Adopt the schemas of a CSV file; - is the input."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Tenants at a time."
)
def adopt_command(
    *,
    name: str | None,
    slug: str | None,
    company: str | None,
    owner: str | None,
    rights: str,
    source: TextIO | None,
    jobs: int,
) -> int:
    """Create the tenant of an existing SCHEMA, or complete an interrupted creation; tables and owners stay unchanged.

    A CSV file has the columns slug, schema, owner, rights and company; the last three may be missing or empty.
    """
    if source is not None and name is None:
        return _adopt_listed(source, jobs=jobs)
    if name is None or source is not None:
        raise click.UsageError("give either SCHEMA or --from")
    tenant = adopt_by_program(Administration(), slug or name, name, company=company, owner=owner, rights=rights)
    print_message(f"tenant {tenant.slug} of {tenant.company}: schema {tenant.schema} beside {name}")
    return 0


def _adopt_listed(source: TextIO, *, jobs: int) -> int:
    """Adopt the listed schemas that lack an adoption with these rights; refusals do not stop it."""
    settings = read_settings()
    connect, logins, files = provisioner(settings), logins_of(settings), migrations()
    listed = read_list(source)
    with connect() as admin:
        connections, done = tenant_connections(admin, settings), read_adopted(admin)
    todo = [table for table in listed if (table.slug, table.adoption.schema, table.adoption.rights.text) not in done]

    def add(admin: Connection[Any], table: Listed) -> tuple[Listed, str]:
        try:
            company = table.company
            adopt(admin, logins, table.slug, table.adoption, company=company, connections=connections, migrations=files)
        except (TurnoError, psycopg.Error) as error:
            return table, str(error).strip().partition("\n")[0]
        return table, ""

    def show(added: tuple[Listed, str], ended: int, total: int) -> None:
        table, error = added
        if error:
            click.echo(f"{table.location}, {table.slug}: {error}", err=True)
        elif ended % STEP == 0 or ended == total:
            print_message(f"{ended}/{total} {table.slug}")

    refused = sum(bool(error) for _, error in fan_out(connect, todo, add, jobs=jobs, progress=show))
    before = len(listed) - len(todo)
    print_message(f"{counted(len(todo) - refused, 'tenant')} added, {before:,} already there, {refused:,} refused")
    return 1 if refused else 0


@schema.command("share", epilog="Example: turno schema share lookups")
@click.argument("names", metavar="SCHEMA…", nargs=-1, required=True)
def share_command(names: tuple[str, ...]) -> None:
    """Let the handlers of every tenant read each SCHEMA; repeat it for tables of a further owner."""
    with provisioning() as (admin, logins):
        share(admin, logins, names)
    print_message(f"every handler may read {', '.join(names)}")


@schema.command("unshare", epilog="Example: turno schema unshare lookups")
@click.argument("names", metavar="SCHEMA…", nargs=-1, required=True)
def unshare_command(names: tuple[str, ...]) -> None:
    """Revoke from the handlers of every tenant the right to read each SCHEMA."""
    with provisioning() as (admin, logins):
        unshare(admin, logins, names)
    print_message(f"no handler reads {', '.join(names)} by a right of all handlers")


@click.group()
def host() -> None:
    """Grant the application's own roles the rights that PUBLIC had before Turno was installed."""


@host.command(epilog="Example: turno host add erp")
@click.argument("role")
def add(role: str) -> None:
    """Let ROLE connect to the database and use advisory locks and the schema public.

    Roles that existed before Turno was installed have these rights already.
    """
    settings = read_settings()
    with admin_session(settings) as admin, admin.transaction():
        known = {role.name: role for role in hosts(admin)}
        if role not in known:
            named = ", ".join(known) or "none"
            raise UnknownRole(f"there is no role {role[:60]!r} of an application; choose one of: {named}")
        join_host(admin, logins_of(settings), known[role])
        record(admin, "host add", subject=role)
    print_message(f"{role} has the rights that PUBLIC had before Turno was installed")


@click.command(epilog="Example: turno db uninstall --plan")
@click.option(
    "--plan",
    is_flag=True,
    help="Print each object, right and role that is dropped, and the schemas that stay; change nothing.",
)
@click.option("--drop-tenants", is_flag=True, help="Drop tenants' schemas that hold data.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def uninstall(*, plan: bool, drop_tenants: bool, yes: bool) -> None:
    """Remove Turno from the database: its schemas, roles and rights; adopted schemas stay unchanged.

    PUBLIC gets back its rights. Refused while workers are alive. Repeat the command after an interruption.
    """
    settings = read_settings()
    logins = logins_of(settings)
    with admin_session(settings) as admin:
        if plan:
            for line in [*obstacles(admin, logins, drop_tenants=drop_tenants), *plan_removal(admin, logins)]:
                print_message(line)
            return
        for obstacle in obstacles(admin, logins, drop_tenants=drop_tenants):
            raise StillInUse(obstacle)
        if not yes:
            jobs = count_open_jobs(admin)
            click.confirm(
                f"Remove Turno and its {counted(jobs, 'open job')} from this database? --plan lists each object",
                abort=True,
            )
        remove_turno(admin, logins, drop_tenants=drop_tenants)
    print_message("Turno is no longer in this database")
