"""Resources of the server that all tenants share: one tenant cannot use them up."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import turno
from tests.faults.own_server import own_example
from tests.misbehaving_handlers import Faulty
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import handler_session, service_session
from turno.tenancy.provisioning.provision import raise_connections
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import HandlerLogin


@contextmanager
def full_notification_queue(url: str) -> Iterator[None]:
    """Fill the queue behind a listener that leaves its transaction open."""
    with psycopg.connect(url, autocommit=True) as listener, psycopg.connect(url, autocommit=True) as sender:
        listener.execute("LISTEN flood")
        listener.execute("BEGIN")
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            send_endlessly(sender)
        yield


def send_endlessly(sender: psycopg.Connection[Any]) -> None:
    for number in count():
        sender.execute("SELECT pg_notify('flood', rpad(%s, 7999, 'x'))", (str(number),))


def enqueue(session: psycopg.Connection[Any]) -> None:
    turno.enqueue(session, "suc0001", "batch_invoicing", {"order_ids": [1]})


def announce(session: psycopg.Connection[Any]) -> None:
    Engine.on(session).announce_changes(["1 x"])


def wake(session: psycopg.Connection[Any]) -> None:
    Engine.on(session).wake()


@pytest.mark.parametrize("send", [enqueue, wake, announce])
def test_full_notification_queue_refuses_no_sender(
    tmp_path: Path, postgres_template: Path, send: Callable[[psycopg.Connection[Any]], None]
) -> None:
    with own_example(tmp_path, postgres_template, settings={"max_notify_queue_pages": "64"}) as (_, example):
        example.faulty = False
        with full_notification_queue(example.url), psycopg.connect(example.url, autocommit=True) as session:
            send(session)


def crash_of(example: ExampleInstallation, job_id: UUID) -> str:
    """Return the cause of the job's first crash; empty before a crash."""
    rows = example.rows("SELECT error FROM background_job_attempts WHERE job_id = %s AND outcome = 'crashed'", job_id)
    return str(rows[0]["error"]["message"]) if rows else ""


def other_tenant_works(example: ExampleInstallation) -> bool:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other)
    return wait_until(lambda: example.job(job_id, tenant=example.other)["status"] == "completed", within=20)


def test_session_with_too_many_locks_is_ended(example: ExampleInstallation) -> None:
    example.faulty, example.backend = True, "pool"
    attack = example.enqueue({"how": "hold_savepoints", "number": 6000}, handler=Faulty)
    example.start_pool(TURNO_MIN_CHILDREN="2", TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: crash_of(example, attack) != "", within=30)
    assert re.fullmatch(r"its session held \d,\d\d\d locks, and may hold 5,120: commit in chunks, as job.each does",
                        crash_of(example, attack))  # fmt: skip
    assert other_tenant_works(example)


@pytest.mark.deep
def test_full_lock_table_is_emptied(tmp_path: Path, postgres_template: Path) -> None:
    with own_example(tmp_path, postgres_template, max_connections=40) as (_, example):
        example.backend = "pool"
        pool = example.start_pool(TURNO_MIN_CHILDREN="3", TURNO_MAX_CHILDREN="3")
        attacks = [example.enqueue({"how": "hold_savepoints", "number": 100_000}, handler=Faulty) for _ in range(2)]
        for attack in attacks:
            assert wait_until(lambda: crash_of(example, attack) != "", within=60)  # noqa: B023 - called at once
        assert other_tenant_works(example)
        assert pool.poll() is None


@pytest.mark.deep
def test_listener_in_an_open_transaction_is_ended(tmp_path: Path, postgres_template: Path) -> None:
    with own_example(tmp_path, postgres_template, settings={"max_notify_queue_pages": "64"}) as (_, example):
        example.backend = "pool"
        attack = example.enqueue({"how": "listen_and_wait"}, handler=Faulty)
        example.start_pool(TURNO_MIN_CHILDREN="2", TURNO_MAX_CHILDREN="2")
        asleep = "SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' AND wait_event = 'PgSleep'"
        assert wait_until(lambda: example.rows(asleep) != [], within=20)
        with (
            psycopg.connect(example.url, autocommit=True) as sender,
            pytest.raises(psycopg.errors.ProgramLimitExceeded),
        ):
            send_endlessly(sender)
        assert wait_until(lambda: "notification queue" in crash_of(example, attack), within=30)
        usage = "SELECT pg_notification_queue_usage() AS usage"
        assert wait_until(lambda: example.rows(usage)[0]["usage"] < 0.5, within=20)
        assert other_tenant_works(example)


def hold_savepoints(session: psycopg.Connection[Any], number: int) -> None:
    insert = "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, '', 'exempt', '')"
    session.execute("BEGIN")
    for n in range(number):
        session.execute("SAVEPOINT s")
        session.execute(insert, (f"S{n}",))


def test_foreign_session_of_a_tenant_is_ended(example: ExampleInstallation) -> None:
    example.faulty, example.backend = True, "pool"
    example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    rogue_session = handler_session(
        example.logins, example.handler_login(), application="rogue", kind=psycopg.Connection
    )
    with closing(rogue_session) as rogue:
        with suppress(psycopg.errors.AdminShutdown):  # on a busy machine before the last savepoint
            hold_savepoints(rogue, 6000)
        gone = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'rogue'"
        assert wait_until(lambda: example.rows(gone) == [], within=30)


def test_handlers_leave_connections_to_the_services(tmp_path: Path, postgres_template: Path) -> None:
    with own_example(tmp_path, postgres_template, max_connections=40) as (_, example), ExitStack() as handlers:
        raise_connections(example.admin, 40)
        logins = cycle([example.handler_login(), example.handler_login(example.other)])
        open_until_refused(handlers, example, logins)
        for role in (example.logins.engine, example.logins.web, example.logins.operator):
            service_session(example.logins, role, application="test").close()


def open_until_refused(opened: ExitStack, example: ExampleInstallation, logins: Iterator[HandlerLogin]) -> None:
    def open_all() -> None:
        for login in logins:
            session = handler_session(example.logins, login, application="test", kind=psycopg.Connection)
            opened.callback(session.close)

    with pytest.raises(psycopg.errors.TooManyConnections, match="pg_use_reserved_connections"):
        open_all()


def test_starting_pool_takes_jobs_of_a_backend_without_workers(example: ExampleInstallation) -> None:
    with psycopg.connect(example.url, autocommit=True) as session:
        job_id = turno.enqueue(session, "suc0001", "batch_invoicing", {"order_ids": [1]}).job_id
    ticket = example.ticket(job_id)
    assert ticket is not None
    assert ticket["backend"] == "exec"
    example.start_pool(TURNO_DEAD_AFTER_SECONDS="1200")
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
