"""The situations that an operator meets, and the trouble that each of them raises."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from handlers.batch_invoicing import BatchInvoicing
from tests.capabilities.webhooks.sent_messages import ended
from tests.failures import end_jobs, fail_items
from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.capabilities.schedules.templates import Templates
from turno.store.engine.announcements import Announcement
from turno.tenancy.identity.session import service_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from tests.installation import ExampleInstallation

KNOWN = ("batch_invoicing", 1)


def failures(example: ExampleInstallation, _: ExitStack) -> None:
    for tenant in (example.one, example.other):
        end_jobs(example, tenant, "import; rm -rf", failed=2)


def failed_items(example: ExampleInstallation, _: ExitStack) -> None:
    fail_items(example, example.one, done=1, failed=2)


def waiting(example: ExampleInstallation, *types: tuple[str, int], change: str = "priority = 1") -> None:
    """A job waits since an hour, and a worker of these types is alive."""
    example.backend = "pool"
    if types:
        example.engine.start_worker(backend="pool", host="here", pid=os.getpid(), types=types, queues=["cold"])
    example.enqueue({"order_ids": example.order_ids()[:1]})
    example.rows(f"UPDATE turno.tickets SET run_at = now() - interval '1 hour', {change}")  # noqa: S608 - constants


def long_wait(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example, KNOWN)


def long_run(example: ExampleInstallation, _: ExitStack) -> None:
    worker = example.engine.start_worker(backend="pool", host="here", pid=os.getpid(), types=[KNOWN], queues=None)
    example.enqueue({"order_ids": example.order_ids()[:1]})
    example.rows(
        "UPDATE turno.tickets SET state = 'running', worker_id = %s, token = gen_random_uuid(),"
        " claimed_at = now() - interval '1 hour'",
        worker,
    )
    # Of 200 attempts 199 took at most 10 s, and one took a day.
    example.rows(
        "INSERT INTO turno.statistics VALUES (0, '-infinity', %s, 'completed', 200, 200, 9, 0, 0, '{0,0}', '{12,23}',"
        " '{199,1}', '{0,0}')",
        KNOWN[0],
    )


def paused_tenant(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example, KNOWN)
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")


def paused_type(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example, KNOWN)
    example.rows("INSERT INTO turno.job_types (type, paused_at) VALUES (%s, now())", KNOWN[0])


def lacks_worker(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example)


def lacks_type(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example, KNOWN, change="type = 'un heard'")
    example.rows("UPDATE background_jobs SET type = 'un heard'")


def lacks_version(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example, KNOWN, change="version = 7")


def lacks_queue(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example, KNOWN, change="queue = 'warm'")


def silent_worker(example: ExampleInstallation, _: ExitStack) -> None:
    example.engine.start_worker(backend="pool", host="away", pid=7, types=[KNOWN], queues=None)
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '1 hour'")


def no_maintenance(example: ExampleInstallation, _: ExitStack) -> None:
    example.rows("UPDATE turno.leases SET until = now() - interval '1 hour' WHERE name = 'steady sweeps'")


def maintenance(example: ExampleInstallation, _: ExitStack) -> None:
    for _failure in range(2):
        example.engine.end_turn("repair", example.one.id, "lock timeout", first=timedelta(0), longest=timedelta(0))


def schedules(example: ExampleInstallation, _: ExitStack) -> None:
    example.engine.announce([Announcement(*KNOWN, "cold", 4)], 20)
    example.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " VALUES ('nightly', %s, '{}', 1, 'ana', 86400, 'UTC', 0, 'skip', now() - interval '3 days')",
        KNOWN[0],
    )
    example.sweep()


def template(example: ExampleInstallation, _: ExitStack) -> None:
    example.engine.announce([Announcement(*KNOWN, "cold", 4)], 20)
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        job = RecurringJob(
            name="monthly", handler=BatchInvoicing, cron="0 0 1 * *", payload={"order_ids": [1]}, user_id="ops"
        )
        Templates(operator, "eva").save(job)
    example.sweep()
    example.rows("UPDATE turno.schedules SET problem = '3 moments were missed'")


def review(example: ExampleInstallation, _: ExitStack) -> None:
    waiting(example, KNOWN, change="state = 'review'")
    example.rows("UPDATE turno.tickets SET run_at = 'infinity'")
    example.rows(
        "INSERT INTO external_effects (key, type, outside_key, state, job_id, attempt, token, calls)"
        " SELECT 'cae:7', type, gen_random_uuid(), 'intended', id, 1, gen_random_uuid(), 1 FROM background_jobs"
    )
    example.rows("UPDATE background_jobs SET run_at = 'infinity', in_doubt = 'cae:7'")


def webhooks(example: ExampleInstallation, _: ExitStack) -> None:
    ended(example, "mailto:eva@shop.example")
    example.rows("UPDATE turno.webhooks SET due_at = 'infinity', attempts = 9, error = '550 no such user'")


def old_snapshot(example: ExampleInstallation, over: ExitStack) -> None:
    role = sql.Identifier(example.logins.operator)
    how = sql.SQL(" WITH INHERIT TRUE" if example.admin.info.server_version >= 160_000 else "")
    example.admin.execute(sql.SQL("GRANT pg_read_all_stats TO {}").format(role) + how)
    over.callback(example.admin.execute, sql.SQL("REVOKE pg_read_all_stats FROM {}").format(role))
    session = over.enter_context(psycopg.connect(example.url))
    session.execute("CREATE TEMP TABLE written (n int)")


# The situation of each kind of trouble, and what the command prints; None: the command ends the trouble.
SITUATIONS: dict[str, tuple[Callable[[ExampleInstallation, ExitStack], None], str | None]] = {
    "failures": (failures, "TimeoutError: bank did not answer"),
    "failed items": (failed_items, "ValueError: bad row"),
    "long wait": (long_wait, "suc0001"),
    "long run": (long_run, "running"),
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
