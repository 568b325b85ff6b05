"""The commands `turno worker …` and `turno backend …`."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from turno.capability import backends
from turno.commands.options import by_option
from turno.commands.output import print_message, show, wants_json
from turno.environment import read_settings
from turno.errors import TurnoError
from turno.process_name import person
from turno.store.engine.workers import swept_steadily, unserved
from turno.store.operator import routing
from turno.store.operator.run_time_settings import ask_worker, list_workers, set_tenant
from turno.tenancy.identity.directory import UnknownTenant
from turno.wiring.logins import operator_session

REQUESTED = {"quiet": "quiet", "stop": "stopping"}
WORKER_HEADERS = ("host", "pid", "backend", "queues", "types", "started", "silent s", "state")
BACKEND_HEADERS = (
    "backend",
    "workers",
    "tenants",
    "scheduled",
    "waiting",
    "published",
    "running",
    "stranded",
    "oldest",
)
ONLY_BESIDE_WORK = (
    "No resident process and no cron job runs maintenance: lost jobs, retries and delayed jobs start within a minute"
    " after the next submission, and not before."
    " To have them in time, run `turno maintain`, or `turno maintain --once` by cron."
)


class NoSuchWorker(TurnoError):
    """The list of workers has none at this place."""


@click.command("list", epilog="Example: turno worker list --json")
def list_all() -> None:
    """List the workers of every host and the age of each heartbeat; a worker beyond TURNO_DEAD_AFTER_SECONDS is lost.

    A worker may run TURNO_RESERVE_CHILDREN additional jobs, for tenants without a running job.
    """
    settings = read_settings()
    with operator_session(settings) as operator:
        workers, steady = list_workers(operator), swept_steadily(operator)
    rows = [
        {name: row[name] for name in ("host", "pid", "backend", "queues", "types", "started_at", "silent")}
        | {"state": "lost" if row["silent"] > settings.dead_after_seconds else REQUESTED.get(row["request"], "alive")}
        for row in workers
    ]
    shown = ("all" if row["queues"] is None else ", ".join(row["queues"]) for row in rows)
    lines = [row | {"queues": queues, "types": len(row["types"])} for row, queues in zip(rows, shown, strict=True)]
    show(rows, WORKER_HEADERS, [tuple(line.values()) for line in lines])
    if not (steady or wants_json()):
        click.echo(ONLY_BESIDE_WORK)


@click.command("set", epilog="Example: turno worker set app1:4711 quiet")
@click.argument("worker", metavar="HOST:PID")
@click.argument("request", type=click.Choice(["quiet", "resume", "stop"]))
@by_option
def change_worker(worker: str, request: str, by: str) -> None:
    """Request that a worker claims no more jobs (quiet), claims again (resume), or stops as by SIGTERM (stop).

    The worker receives the request with its next heartbeat.
    """
    with operator_session(read_settings()) as operator:
        named = [row["id"] for row in list_workers(operator) if worker == f"{row['host']}:{row['pid']}"]
        if not named:
            raise NoSuchWorker(f"no worker is {worker[:200]!r}; see `turno worker list`")
        for number in named:
            ask_worker(operator, number, None if request == "resume" else request, by=by)
    print_message(f"worker {worker}: {request}")


@click.group()
def backend() -> None:
    """Show the workers and jobs of each backend, or change the backend."""


@backend.command(epilog="Example: turno backend status --json")
def status() -> None:
    """Show each backend's workers and jobs, and stranded jobs: jobs without a living worker.

    Then list the jobs that no living worker can claim, because it lacks their type, version or queue.
    """
    settings = read_settings()
    with operator_session(settings) as operator:
        tenants = list(routing.chosen(operator, settings.queue_backend).values())
        counted = routing.counts(operator)
        waiting = unserved(operator, timedelta(0))
    with_tenants = (row | {"tenants": tenants.count(row["backend"])} for row in counted)
    rows: list[dict[str, Any]] = [{name: row[name] for name in BACKEND_HEADERS} for row in with_tenants]
    lacking = {name: [asdict(lane) for lane in waiting if lane.backend == name] for name in backends()}
    objects = [row | {"unserved": lacking[row["backend"]]} for row in rows]
    show(objects, BACKEND_HEADERS, [tuple(row.values()) for row in rows])
    for lane in () if wants_json() else waiting:
        click.echo(lane.sentence)


@backend.command("set", epilog="Example: turno backend set pool --canary 10")
@click.argument("name", type=click.Choice([*backends(), "default"]))
@click.option("--tenant", help="Change this tenant only.")
@click.option("--canary", "percent", type=click.IntRange(0, 100), help="Change this percentage of the tenants.")
def change_backend(*, name: str, tenant: str | None, percent: int | None) -> None:
    """Run waiting and future jobs on the backend NAME; `default` is the backend of the environment."""
    if tenant and percent is not None:
        raise click.UsageError("--tenant and --canary exclude each other")
    settings, value = read_settings(), None if name == "default" else name
    with operator_session(settings) as operator:
        if tenant:
            subject = f"tenant {tenant}"
            if not set_tenant(operator, tenant, {"backend": value}, by=person()):
                raise UnknownTenant(tenant)
        elif percent is not None:
            subject = f"{percent} tenants in a hundred"
            with operator.transaction():
                routing.set_for_all(operator, "queue_canary_backend", value)
                routing.set_for_all(operator, "queue_canary_percent", None if value is None else str(percent))
        else:
            subject = "all tenants"
            routing.set_for_all(operator, "queue_backend", value)
        moved = routing.reroute(operator, settings.queue_backend)
    print_message(f"{subject}: {name}; waiting jobs that moved: {moved}", backend=name, moved=moved)
