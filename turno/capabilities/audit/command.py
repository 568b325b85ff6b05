"""The commands `turno audit …`."""

import json
from datetime import datetime

import click

from turno.capabilities.audit.stored import list_audit
from turno.commands.options import PAST_MOMENT
from turno.commands.output import show
from turno.environment import read_settings
from turno.wiring.logins import operator_session

HEADERS = ("at", "who", "action", "tenant", "subject", "jobs", "detail")


@click.group()
def audit() -> None:
    """List the changes by operators."""


@audit.command("list", epilog="Example: turno audit list --action retry --since 7d")
@click.option("--by", "actor", help="Only changes by this operator.")
@click.option("--tenant", help="Only changes of this tenant.")
@click.option("--action", help="Only this kind of change, such as retry or `tenant set`.")
@click.option("--since", type=PAST_MOMENT, metavar="AGO|TIME", help="Only changes since then.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
def list_entries(
    *, actor: str | None, tenant: str | None, action: str | None, since: datetime | None, limit: int
) -> None:
    """List the changes by operators, the latest first. Entries cannot be changed or removed."""
    with operator_session(read_settings()) as session:
        rows = list_audit(session, actor=actor, tenant=tenant, action=action, since=since, limit=limit)
    lines = [
        (row["at"], row["actor"], row["action"], row["tenant"], row["subject"], row["jobs"], json.dumps(row["detail"]))
        for row in rows
    ]
    show(rows, HEADERS, lines)
