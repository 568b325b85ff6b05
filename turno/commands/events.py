"""The commands `turno events …`: what was published, and giving it to a subscriber again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from turno.commands.output.jobs_view import as_json
from turno.commands.output.tables import print_table, text
from turno.commands.tenant_session import session_of
from turno.environment import read_settings
from turno.errors import NotEnqueued
from turno.jobs.named_handlers import named_handlers
from turno.store.api import events as stored
from turno.store.api.events import Page

if TYPE_CHECKING:
    from uuid import UUID

BATCH = 500
MOMENT = "%Y-%m-%dT%H:%M:%S"
HEADERS = ("event", "name", "key", "published", "by", "jobs")

tenant_option = click.option("--tenant", required=True, help="Whose events.")


@click.group()
def events() -> None:
    """List what was published, and give it to a subscriber again."""


@events.command(name="list")
@tenant_option
@click.option("--name", help="Only events of this name.")
@click.option("--after", type=click.UUID, metavar="EVENT", help="Only those published before this one.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON, with the data.")
def list_events(*, tenant: str, name: str | None, after: UUID | None, limit: int, json_wanted: bool) -> None:
    """List events, the newest first, with the types that a job was made for."""
    with session_of(tenant) as session:
        rows = session.read(lambda reader: stored.listed(reader, name, Page(after, limit)))
    if json_wanted:
        click.echo(as_json(rows))
        return
    print_table(
        HEADERS,
        [
            (
                row["id"],
                row["name"],
                text(row["key"]),
                text(row["published_at"]),
                row["user_id"],
                ", ".join(row["jobs"]),
            )
            for row in rows
        ],
    )


@events.command()
@tenant_option
@click.option("--type", "job_type", required=True, help="The subscriber: a job type.")
@click.option("--since", type=click.DateTime([MOMENT]), required=True, metavar="UTC", help="As 2026-12-01T06:00:00.")
@click.option(
    "--until", type=click.DateTime([MOMENT]), metavar="UTC", help="Only those published before this; now unless said."
)
@click.option("--dry-run", is_flag=True, help="Only say how many.")
def replay(*, tenant: str, job_type: str, since: datetime, until: datetime | None, dry_run: bool) -> None:
    """Make new jobs of a subscriber for the events of its names from a moment on, in their order."""
    handler = named_handlers(read_settings().handlers).handler(job_type)
    if not handler.subscribes:
        raise NotEnqueued(f"{job_type} subscribes to no event: see `subscribes` of its handler")
    end = (until or datetime.now(UTC)).replace(tzinfo=UTC)
    begin = since.replace(tzinfo=UTC)
    count, last = 0, None
    with session_of(tenant) as session:
        backend = session.dispatcher.backend_of(session.tenant)
        while True:
            page = Page(last, BATCH)
            done, last = session.read(
                lambda reader: stored.replay(reader, job_type, begin, end, page, backend=backend, dry_run=dry_run)  # noqa: B023 - called at once
            )
            count += done
            if done < BATCH:
                break
    click.echo(f"{count} events {'would be' if dry_run else 'were'} given to {job_type} again")
