"""The commands `turno effect …`: outside effects of jobs."""

import json
import sys
from typing import Any, NamedTuple
from uuid import UUID

import click
import psycopg
from psycopg import Connection, sql

from turno.capabilities.effects import review
from turno.commands.output import print_message, show
from turno.commands.tenant_session import session_of
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.process_name import person
from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.schema_migrations.locks import limit_lock_wait
from turno.wiring.provisioner import provisioner

MOST = 1000

tenant_option = click.option("--tenant", required=True, help="The tenant of the job.")


class NotSettled(TurnoError):
    """The effect is unchanged; the message states why."""


@click.group()
def effect() -> None:
    """List and settle outside effects of jobs; doubt them after a restore."""


@effect.command("list", epilog="Example: turno effect list --tenant suc0001 0192d3a4-5b6c-7d8e-9f01-23456789abcd")
@tenant_option
@click.argument("job_id", type=click.UUID)
def list_effects(*, tenant: str, job_id: UUID) -> None:
    """List the outside effects that the job JOB_ID issued or waits for."""
    with session_of(tenant) as session:
        effects = session.read(lambda reader: review.of_job(reader, job_id, after="", limit=MOST))
    show(effects, ("effect", "state", "calls", "since", "settled by"), [_row(row) for row in effects])


@effect.command(
    epilog="Example: turno effect settle --tenant suc0001 --absent 0192d3a4-5b6c-7d8e-9f01-23456789abcd invoice-1"
)
@tenant_option
@click.option(
    "--done", metavar="JSON", help="The effect happened; JSON is the value that its call would have returned."
)
@click.option("--absent", is_flag=True, help="The effect did not happen and no longer can: it may be issued again.")
@click.option("--by", default=person, help="Name of the deciding person; by default the user of this shell.")
@click.argument("job_id", type=click.UUID)
@click.argument("key")
def settle(*, tenant: str, done: str | None, absent: bool, by: str, job_id: UUID, key: str) -> None:
    """Settle the outside effect KEY that the job JOB_ID issued or waits for; the job runs on."""
    if absent == (done is not None):
        raise click.UsageError("give either --done JSON or --absent")
    result = None if done is None else _as_json_text(done)
    with session_of(tenant) as session:
        verdict = review.settle(
            session.lend, session.dispatcher, session.tenant, job_id, user_id=None, key=key, result=result, by=by
        )
    match verdict:
        case "settled":
            print_message(f"{key} is settled as {'absent' if absent else 'done'}; the jobs that waited for it run on")
        case "busy":
            raise NotSettled(f"an attempt may be issuing {key} now; look again when it has ended")
        case "ended":
            raise NotSettled(f"{key} was settled before; the first decision stays")
        case _:
            raise NotSettled(
                f"job {job_id} of {tenant} has no outside effect {key}; `turno effect list` names its effects"
            )


@effect.command(epilog="Example: turno effect doubt --all")
@click.argument("slug", required=False)
@click.option("--all", "everybody", is_flag=True, help="Every active tenant.")
@click.option("--over", is_flag=True, help="End the look-ups: the effects since the backup are on record.")
def doubt(slug: str | None, *, everybody: bool, over: bool) -> None:
    """After a restore: look up every outside effect of the tenant SLUG before a job issues it."""
    if everybody == (slug is not None):
        raise click.UsageError("name a tenant, or give --all")
    with provisioner(read_settings())() as admin:
        result = set_doubt(admin, slug, doubt=not over)
    state = (
        "its record of outside effects is trusted" if over else "outside effects without a record are looked up first"
    )
    for tenant in result.changed:
        print_message(f"tenant {tenant}: {state}")
    for tenant, why in result.troubles.items():
        click.echo(f"tenant {tenant} is unchanged, repeat the command: {why}", err=True)
    sys.exit(bool(result.troubles))


class Doubt(NamedTuple):
    """The tenants that were changed, and the error of each tenant that could not be changed, by slug."""

    changed: list[str]
    troubles: dict[str, str]


def set_doubt(admin: Connection[Any], slug: str | None, *, doubt: bool) -> Doubt:
    """Have effects without a record looked up before they are issued, or trust the record again.

    For one tenant, or with None for every active one; a tenant that fails stops no other. Raises UnknownTenant.
    """
    with admin.transaction():
        rows = admin.execute(
            "SELECT slug, schema, owner_role FROM turno.tenants"
            " WHERE state = 'active' AND (%(slug)s::text IS NULL OR slug = %(slug)s) ORDER BY slug",
            {"slug": slug},
        ).fetchall()
        if slug is not None and not rows:
            raise UnknownTenant(slug)
    result = Doubt([], {})
    for tenant, schema, owner in rows:
        try:
            with admin.transaction():
                limit_lock_wait(admin)
                _set(admin, schema, owner, doubt=doubt)
        except psycopg.Error as error:
            if admin.broken:
                raise
            result.troubles[tenant] = str(error).strip().partition("\n")[0]
        else:
            result.changed.append(tenant)
    return result


def _set(admin: Connection[Any], schema: str, owner: str, *, doubt: bool) -> None:
    table = sql.Identifier(schema, "external_doubt")
    admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))
    admin.execute(sql.SQL("DELETE FROM {}").format(table))
    if doubt:
        admin.execute(sql.SQL("INSERT INTO {} DEFAULT VALUES").format(table))
    act = "effects in doubt" if doubt else "effects trusted"
    admin.execute("INSERT INTO turno.operator_acts (action) VALUES (%s)", [act])


def _as_json_text(text: str) -> str:
    try:
        return json.dumps(json.loads(text), allow_nan=False)
    except ValueError as problem:
        raise click.BadParameter(f"is not JSON: {problem}", param_hint="--done") from None


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    state = "needs review" if row["needs_review"] else row["state"]
    return (row["key"], state, row["calls"], row["intended_at"], row["settled_by"])
