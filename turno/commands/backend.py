"""The commands `turno backend …`: show and change the backend of each tenant at run time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click
from psycopg import Connection

from turno.capability import backends
from turno.commands.output.results import print_message, show, wants_json
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.store.engine import workers
from turno.store.operator import routing
from turno.wiring.logins import operator_session

HEADERS = ("backend", "workers", "tenants", "scheduled", "ready", "published", "running", "stranded", "oldest")
CHOICES = click.Choice([*backends(), "default"])


class NoSuchTenant(TurnoError):
    """There is no active tenant of this name."""


@click.group()
def backend() -> None:
    """Show the workers and jobs of each backend, or change the backend."""


@backend.command(epilog="Example: turno backend status --json")
def status() -> None:
    """Show each backend's workers and jobs, and stranded jobs: jobs without a living worker.

    Then list the jobs that no living worker can claim, because it lacks their type, version or queue.
    """
    with _operator() as (session, default):
        tenants = list(routing.chosen(session, default).values())
        rows = [
            (one.backend, one.workers, tenants.count(one.backend), one.scheduled, one.ready, one.published,
             one.running, one.stranded, one.oldest)
            for one in routing.counts(session)
        ]  # fmt: skip
        unserved = workers.unserved(session, timedelta(0))
    lacking = {name: [asdict(one) for one in unserved if one.backend == name] for name in backends()}
    show([dict(zip(HEADERS, row, strict=True)) | {"unserved": lacking[row[0]]} for row in rows], HEADERS, rows)
    for one in () if wants_json() else unserved:
        click.echo(one.sentence)


@backend.command("set", epilog="Example: turno backend set pool --canary 10")
@click.argument("name", type=CHOICES)
@click.option("--tenant", help="Change this tenant only.")
@click.option("--canary", "percent", type=click.IntRange(0, 100), help="Change this percentage of the tenants.")
def change(*, name: str, tenant: str | None, percent: int | None) -> None:
    """Run waiting and future jobs on the backend NAME; `default` is the backend of the environment."""
    if tenant and percent is not None:
        raise click.UsageError("--tenant and --canary exclude each other")
    value = None if name == "default" else name
    with _operator() as (session, default):
        if tenant:
            if not routing.set_for_tenant(session, tenant, value):
                raise NoSuchTenant(f"no active tenant is called {tenant[:60]!r}; see `turno tenant list`")
        elif percent is not None:
            with session.transaction():
                routing.set_for_all(session, "queue_canary_backend", value)
                routing.set_for_all(session, "queue_canary_percent", None if value is None else str(percent))
        else:
            routing.set_for_all(session, "queue_backend", value)
        moved = routing.reroute(session, default)
    print_message(f"{_whom(tenant, percent)}: {name}; waiting jobs that moved: {moved}", backend=name, moved=moved)


def _whom(tenant: str | None, percent: int | None) -> str:
    if tenant:
        return f"tenant {tenant}"
    return "all tenants" if percent is None else f"{percent} tenants in a hundred"


@contextmanager
def _operator() -> Iterator[tuple[Connection[Any], str]]:
    settings = read_settings()
    with operator_session(settings) as session:
        yield session, settings.queue_backend
