"""The command that a trouble advises works in the situation of the trouble: it shows the cause or ends the trouble."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from handlers.batch_invoicing import BatchInvoicing
from tests.capabilities.webhooks.told import ended
from tests.failures import end_jobs, fail_items
from tests.unit.test_runbook import rows
from turno.capabilities.schedules import template_rows as templates
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.servers.wait import wait_until
from turno.store.engine.announcements import Announcement
from turno.store.operator.troubles import Trouble, troubles
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.installation import ExampleInstallation

DEAD_AFTER = timedelta(seconds=30)
KNOWN = ("batch_invoicing", 1)


def failures(world: ExampleInstallation, _: ExitStack) -> None:
    for tenant in (world.one, world.other):
        end_jobs(world, tenant, "import; rm -rf", failed=2)


def failed_items(world: ExampleInstallation, _: ExitStack) -> None:
    fail_items(world, world.one, done=1, failed=2)


def waiting(world: ExampleInstallation, *types: tuple[str, int], change: str = "priority = 1") -> None:
    """A job waits since an hour, and a worker of these types is alive."""
    world.backend = "pool"
    if types:
        world.engine.start_worker(backend="pool", host="here", pid=os.getpid(), types=types, queues=["cold"])
    world.enqueue({"order_ids": world.order_ids()[:1]})
    world.rows(f"UPDATE turno.tickets SET run_at = now() - interval '1 hour', {change}")  # noqa: S608 - constants


def long_wait(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world, KNOWN)


def paused_tenant(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world, KNOWN)
    world.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")


def paused_type(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world, KNOWN)
    world.rows("INSERT INTO turno.job_types (type, paused_at) VALUES (%s, now())", KNOWN[0])


def lacks_worker(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world)


def lacks_type(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world, KNOWN, change="type = 'un heard'")
    world.rows("UPDATE background_jobs SET type = 'un heard'")


def lacks_version(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world, KNOWN, change="version = 7")


def lacks_queue(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world, KNOWN, change="queue = 'warm'")


def silent_worker(world: ExampleInstallation, _: ExitStack) -> None:
    world.engine.start_worker(backend="pool", host="away", pid=7, types=[KNOWN], queues=None)
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '1 hour'")


def no_maintenance(world: ExampleInstallation, _: ExitStack) -> None:
    world.rows("DELETE FROM turno.leases WHERE name = 'steady sweeps'")


def maintenance(world: ExampleInstallation, _: ExitStack) -> None:
    for _failure in range(2):
        world.engine.end_turn("repair", world.one.id, "lock timeout", first=timedelta(0), longest=timedelta(0))


def schedules(world: ExampleInstallation, _: ExitStack) -> None:
    world.engine.announce([Announcement(*KNOWN, "cold", 4)], 20)
    world.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " VALUES ('nightly', %s, '{}', 1, 'ana', 86400, 'UTC', 0, 'skip', now() - interval '3 days')",
        KNOWN[0],
    )
    world.sweep()


def template(world: ExampleInstallation, _: ExitStack) -> None:
    world.engine.announce([Announcement(*KNOWN, "cold", 4)], 20)
    with service_session(world.logins, world.logins.operator, application="test") as operator:
        job = RecurringJob(
            name="monthly", handler=BatchInvoicing, cron="0 0 1 * *", payload={"order_ids": [1]}, user_id="ops"
        )
        templates.save(operator, job, by="eva")
    world.sweep()
    world.rows("UPDATE turno.template_copies SET problem = '3 moments were missed'")


def review(world: ExampleInstallation, _: ExitStack) -> None:
    waiting(world, KNOWN, change="state = 'review'")
    world.rows("UPDATE turno.tickets SET run_at = 'infinity'")
    world.rows(
        "INSERT INTO external_effects (key, type, outside_key, state, job_id, attempt, token, calls)"
        " SELECT 'cae:7', type, gen_random_uuid(), 'intended', id, 1, gen_random_uuid(), 1 FROM background_jobs"
    )
    world.rows("UPDATE background_jobs SET run_at = 'infinity', in_doubt = 'cae:7'")


def webhooks(world: ExampleInstallation, _: ExitStack) -> None:
    ended(world, "mailto:eva@shop.example")
    world.rows("UPDATE turno.webhooks SET due_at = 'infinity', attempts = 9, error = '550 no such user'")


def old_snapshot(world: ExampleInstallation, over: ExitStack) -> None:
    role = sql.Identifier(world.logins.operator)
    how = sql.SQL(" WITH INHERIT TRUE" if world.admin.info.server_version >= 160_000 else "")
    world.admin.execute(sql.SQL("GRANT pg_read_all_stats TO {}").format(role) + how)
    over.callback(world.admin.execute, sql.SQL("REVOKE pg_read_all_stats FROM {}").format(role))
    session = over.enter_context(psycopg.connect(world.url))
    session.execute("CREATE TEMP TABLE written (n int)")


# The situation of each kind of trouble, and what the command prints; None: the command ends the trouble.
SITUATIONS: dict[str, tuple[Callable[[ExampleInstallation, ExitStack], None], str | None]] = {
    "failures": (failures, "TimeoutError: bank did not answer"),
    "failed items": (failed_items, "ValueError: bad row"),
    "long wait": (long_wait, "suc0001"),
    "paused tenant": (paused_tenant, None),
    "paused type": (paused_type, None),
    "lacks worker": (lacks_worker, None),
    "lacks type": (lacks_type, "1 job of 1 tenant would be cancelled"),
    "lacks version": (lacks_version, KNOWN[0]),
    "lacks queue": (lacks_queue, None),
    "silent worker": (silent_worker, None),
    "no maintenance": (no_maintenance, None),
    "maintenance": (maintenance, None),
    "schedules": (schedules, "nightly"),
    "templates": (template, "3 moments were missed"),
    "review": (review, KNOWN[0]),
    "webhooks": (webhooks, "550 no such user"),
    "old snapshot": (old_snapshot, "postgres"),
}
RESIDENT = ("turno work", "turno maintain")


@pytest.fixture(autouse=True)
def over(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Some process runs maintenance; after the test the situation is over."""
    monkeypatch.setattr("turno.store.operator.troubles.OLD_SNAPSHOT", timedelta(0))
    world.rows(
        "INSERT INTO turno.leases (name, holder, until) VALUES ('steady sweeps', 'x', now() + interval '1 hour')"
        " ON CONFLICT (name) DO UPDATE SET until = excluded.until"
    )
    with ExitStack() as stack:
        yield stack
    world.rows("UPDATE turno.tenants SET paused_at = NULL")
    world.rows("DELETE FROM turno.schedule_templates")


def of_kind(world: ExampleInstallation, kind: str) -> list[Trouble]:
    with service_session(world.logins, world.logins.operator, application="test") as operator:
        return [one for one in troubles(operator, DEAD_AFTER) if one.kind == kind]


def output(world: ExampleInstallation, command: str) -> str:
    """Run a command that ends; returns what it prints."""
    known = conninfo_to_dict(world.url)
    postgres = {f"PG{name.upper()}": str(known[key]) for name, key in
                {"host": "host", "port": "port", "user": "user", "password": "password", "database": "dbname"}.items()
                if known.get(key)}  # fmt: skip
    program, *arguments = shlex.split(command)
    if program == "turno":
        done = world.start(*arguments)
    else:
        done = subprocess.Popen(
            [program, *arguments], env=world.environment | postgres, stdout=subprocess.PIPE, text=True
        )
    said, _ = done.communicate(timeout=60)
    assert done.returncode == 0, said
    return said


@pytest.mark.parametrize("kind", SITUATIONS)
def test_advised_command_shows_the_cause_or_ends_it(world: ExampleInstallation, over: ExitStack, kind: str) -> None:
    situation, shown = SITUATIONS[kind]
    situation(world, over)
    (trouble,) = of_kind(world, kind)
    if trouble.command.startswith(RESIDENT) and "--once" not in trouble.command:
        process = world.start(*shlex.split(trouble.command)[1:])
        assert wait_until(lambda: not of_kind(world, kind), within=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    elif shown is None:
        output(world, trouble.command)
        assert of_kind(world, kind) == []
    else:
        assert shown in output(world, trouble.command)


def test_every_kind_of_trouble_has_a_situation() -> None:
    assert SITUATIONS.keys() == rows("Turno's own").keys() | {"paused tenant", "paused type"}


def test_dry_run_of_an_advised_cancel_changes_nothing(world: ExampleInstallation, over: ExitStack) -> None:
    lacks_type(world, over)
    (trouble,) = of_kind(world, "lacks type")
    assert trouble.command.endswith(" --dry-run")
    output(world, trouble.command)
    assert len(of_kind(world, "lacks type")) == 1
    output(world, trouble.command.removesuffix(" --dry-run"))
    assert of_kind(world, "lacks type") == []
