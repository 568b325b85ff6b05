"""The commands `turno event …`: list and replay published events, list and remove subscriptions."""

from datetime import UTC, datetime
from uuid import UUID

import click

from turno.capabilities.events import stored
from turno.capabilities.events.stored import Page, Replay
from turno.commands.options import PAST_MOMENT
from turno.commands.output import print_message, show, text
from turno.commands.tenant_session import session_of
from turno.environment import read_settings
from turno.errors import NotEnqueued
from turno.jobs.handler import named_handlers
from turno.jobs.label import counted
from turno.wiring.logins import operator_session

BATCH = 500
HEADERS = ("event", "name", "key", "published", "by", "jobs")

tenant_option = click.option("--tenant", required=True, help="The tenant, by its slug.")


@click.group()
def events() -> None:
    """List and replay events; list and remove subscriptions."""


@events.command(name="list", epilog="Example: turno event list --tenant suc0001 --name order.paid")
@tenant_option
@click.option("--name", help="Only events of this name.")
@click.option("--after", type=click.UUID, metavar="EVENT", help="Only events before this event, by its id.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
def list_events(*, tenant: str, name: str | None, after: UUID | None, limit: int) -> None:
    """List events, newest first, with the types that have a job."""
    with session_of(tenant) as session:
        rows = session.read(lambda reader: stored.listed(reader, name, Page(after, limit)))
    lines = [
        (row["id"], row["name"], text(row["key"]), text(row["published_at"]), row["user_id"], ", ".join(row["jobs"]))
        for row in rows
    ]
    show(rows, HEADERS, lines)


@events.command(epilog="Example: turno event replay --tenant suc0001 --type send_letters --since 7d --missing")
@tenant_option
@click.option("--type", "job_type", required=True, help="The subscriber, a job type.")
@click.option("--name", help="Only events of this name; all names that the type subscribes to by default.")
@click.option("--since", type=PAST_MOMENT, required=True, metavar="AGO|TIME", help="Only events from then on.")
@click.option("--until", type=PAST_MOMENT, metavar="AGO|TIME", help="Only events before this time.")
@click.option("--missing", is_flag=True, help="Only events for which the type has no job yet.")
@click.option("--dry-run", is_flag=True, help="Only count the events.")
def replay(
    *,
    tenant: str,
    job_type: str,
    name: str | None,
    since: datetime,
    until: datetime | None,
    missing: bool,
    dry_run: bool,
) -> None:
    """Create jobs of a subscriber for published events, in their order, 500 a transaction.

    A new subscriber receives earlier events by --missing, which also continues an interrupted command.
    """
    handler = named_handlers(read_settings().handlers).handler(job_type)
    if not handler.subscribes:
        raise NotEnqueued(f"{job_type} subscribes to no event: see `subscribes` of its handler")
    if name is not None and name not in handler.subscribes:
        raise NotEnqueued(f"{job_type} does not subscribe to {name}; its events are {', '.join(handler.subscribes)}")
    wanted = Replay(job_type, name, since, until or datetime.now(UTC), missing)
    count, last = 0, None
    with session_of(tenant) as session:
        backend = session.dispatcher.backend_of(session.tenant)
        while True:
            page = Page(last, BATCH)
            done, last = session.read(
                lambda reader: stored.replay(reader, wanted, page, backend=backend, dry_run=dry_run)  # noqa: B023 - called at once
            )
            count += done
            if done < BATCH:
                break
    print_message(f"{counted(count, 'event')} {'would be ' if dry_run else ''}replayed for {job_type}")


@events.command(epilog="Example: turno event subscriptions --json")
def subscriptions() -> None:
    """List the subscriptions, and when a process last announced each."""
    with operator_session(read_settings()) as operator:
        rows = stored.subscriptions(operator)
    headers = ("event", "type", "ordered", "announced")
    lines = [(event, job_type, "yes" if ordered else "no", text(seen_at)) for event, job_type, ordered, seen_at in rows]
    show([dict(zip(headers, row, strict=True)) for row in rows], headers, lines)


@events.command(epilog="Example: turno event unsubscribe order.paid send_letters")
@click.argument("event")
@click.argument("job_type", metavar="TYPE")
def unsubscribe(*, event: str, job_type: str) -> None:
    """Remove the subscription of TYPE to EVENT at once, instead of a day after its last announcement.

    Stop the processes of the release that declares it first: their next announcement adds it again.
    """
    with operator_session(read_settings()) as operator:
        if not stored.unsubscribe(operator, event, job_type):
            raise NotEnqueued(f"{job_type} does not subscribe to {event}; see `turno event subscriptions`")
    print_message(f"{job_type} no longer subscribes to {event}")
