"""An application follows, cancels and retries jobs in SQL, under its own role."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from tests.integration.dispatch.test_enqueue_from_anywhere import ORDERS, erp, role, url
from tests.misbehaving_handlers import Faulty
from turno import enqueue
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

__all__ = ["erp", "role", "url"]

Session = psycopg.Connection[Any]


def call(session: Session, function: str, *arguments: Any) -> list[dict[str, Any]]:
    """Return the rows of a function of the schema `turno`."""
    statement = sql.SQL("SELECT * FROM {}({})").format(
        sql.Identifier("turno", function), sql.SQL(", ").join([sql.Placeholder()] * len(arguments))
    )
    with session.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, arguments).fetchall()


def test_job_shows_progress_result_and_end(example: ExampleInstallation, erp: Session) -> None:
    job_id = example.enqueue({"order_ids": example.order_ids()[:2], "point_of_sale": 1})
    [waiting] = call(erp, "job", "suc0001", job_id)
    assert (waiting["type"], waiting["status"], waiting["outcome"]) == ("batch_invoicing", "pending", None)
    example.attempt(job_id)
    [ended] = call(erp, "job", "suc0001", job_id)
    assert (ended["status"], ended["outcome"], ended["done"], ended["total"]) == ("completed", "completed", 2, 2)
    assert ended["result"] == example.job(job_id)["result"]
    assert ended["error"] is None


def test_job_shows_the_error_without_a_traceback(example: ExampleInstallation, erp: Session) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "error"}, handler=Faulty, max_attempts=1)
    example.attempt(job_id)
    [ended] = call(erp, "job", "suc0001", job_id)
    assert ended["status"] == "failed"
    assert ended["error"] == f"unexpected error {example.job(job_id)['error']['reference']}"


def test_job_of_another_tenant_is_unknown(example: ExampleInstallation, erp: Session) -> None:
    job_id = example.enqueue(ORDERS, tenant=example.other)
    for unknown in (job_id, uuid4()):
        assert call(erp, "job", "suc0001", unknown) == call(erp, "wait", "suc0001", unknown, 60) == []
        assert call(erp, "cancel", "suc0001", unknown) == [{"cancel": "unknown"}]
        assert call(erp, "retry", "suc0001", unknown) == [{"new_job_id": None, "verdict": "unknown"}]
    assert example.job(job_id, tenant=example.other)["status"] == "pending"


@pytest.mark.parametrize("function", ["job", "wait", "cancel", "retry"])
def test_caller_needs_the_right_to_the_tenant(example: ExampleInstallation, erp: Session, function: str) -> None:
    job_id = example.enqueue(ORDERS)
    with pytest.raises(psycopg.Error, match="no active tenant is called 'nobody'") as unknown:
        call(erp, function, "nobody", job_id)
    assert unknown.value.sqlstate == "TU010"
    erp.rollback()
    example.admin.execute(
        "CREATE SCHEMA erp_tables; UPDATE turno.tenants SET adopted_schema = 'erp_tables' WHERE slug = 'suc0001'"
    )
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not use the schema erp_tables"):
            call(erp, function, "suc0001", job_id)
    finally:
        example.admin.execute("UPDATE turno.tenants SET adopted_schema = NULL; DROP SCHEMA erp_tables")


@pytest.mark.parametrize("name", ["application_job", "application_cancel", "application_retry"])
def test_functions_of_a_tenant_are_closed(example: ExampleInstallation, erp: Session, name: str) -> None:
    arguments = "NULL, NULL" if name == "application_retry" else "NULL"
    function = sql.Identifier(example.one.schema, name)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        erp.execute(sql.SQL("SELECT {}({})").format(function, sql.SQL(arguments)))


def test_cancel_of_a_waiting_and_an_ended_job(example: ExampleInstallation, erp: Session) -> None:
    job_id = example.enqueue(ORDERS)
    assert call(erp, "cancel", "suc0001", job_id) == [{"cancel": "cancelled"}]
    assert call(erp, "cancel", "suc0001", job_id) == [{"cancel": "ended"}]
    erp.rollback()
    assert example.job(job_id)["status"] == "pending", "the caller's transaction decides"
    call(erp, "cancel", "suc0001", job_id)
    erp.commit()
    assert (example.job(job_id)["status"], example.job(job_id)["reason"]) == (
        "cancelled",
        "cancelled by the application",
    )


def test_retry_makes_one_job(example: ExampleInstallation, erp: Session) -> None:
    job_id = example.enqueue(ORDERS)
    assert call(erp, "retry", "suc0001", job_id) == [{"new_job_id": None, "verdict": "not_retryable"}]
    erp.rollback()
    example.cancel(job_id)
    [first] = call(erp, "retry", "suc0001", job_id)
    erp.commit()
    assert first["verdict"] == "accepted"
    assert call(erp, "retry", "suc0001", job_id) == [first | {"verdict": "replayed"}]
    [old] = call(erp, "job", "suc0001", job_id)
    erp.commit()
    assert old["retried_as"] == first["new_job_id"]
    assert example.ticket(UUID(str(first["new_job_id"]))) is not None


def test_retry_notifies_the_workers_at_its_commit(example: ExampleInstallation, erp: Session) -> None:
    job_id = example.enqueue(ORDERS)
    example.cancel(job_id)
    with psycopg.connect(example.url, autocommit=True) as listener:
        listener.execute("LISTEN turno_jobs")
        for verdict, hints in (("accepted", 1), ("replayed", 0)):
            assert call(erp, "retry", "suc0001", job_id)[0]["verdict"] == verdict
            erp.commit()
            call(erp, "job", "suc0001", job_id)
            erp.commit()
            listener.execute("NOTIFY turno_jobs, 'end'")  # after the hint, if there is a hint
            notifications = []
            for notification in listener.notifies(timeout=60):
                if notification.payload == "end":
                    break
                notifications.append(notification)
            assert len(notifications) == hints


def test_wait_returns_at_the_end(example: ExampleInstallation, erp: Session) -> None:
    job_id = example.enqueue(ORDERS)
    erp.autocommit = True
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(call, erp, "wait", "suc0001", job_id, 60)
        pid = erp.info.backend_pid
        query = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
        assert wait_until(lambda: example.admin.execute(query, [pid]).fetchone() is not None, within=30)
        example.cancel(job_id)
        [ended] = waiting.result()
    assert (ended["status"], ended["outcome"]) == ("cancelled", "cancelled")


def test_wait_returns_an_open_job_after_its_time(example: ExampleInstallation, erp: Session) -> None:
    [open_job] = call(erp, "wait", "suc0001", example.enqueue(ORDERS), 0.01)
    assert open_job["status"] == "pending"


@pytest.mark.parametrize("seconds", [-1, 61, float("nan"), float("inf"), None])
def test_wait_refuses_a_wrong_time(example: ExampleInstallation, erp: Session, seconds: float | None) -> None:
    with pytest.raises(psycopg.Error, match="seconds is not possible"):
        call(erp, "wait", "suc0001", example.enqueue(ORDERS), seconds)


def test_wait_refuses_a_snapshot_that_stays(example: ExampleInstallation, erp: Session) -> None:
    erp.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(psycopg.Error, match="a transaction in repeatable read sees no later change"):
        call(erp, "wait", "suc0001", example.enqueue(ORDERS), 1)


@pytest.mark.usefixtures("example")
def test_wait_refuses_a_job_of_the_open_transaction(erp: Session) -> None:
    made = enqueue(erp, "suc0001", "batch_invoicing", ORDERS)
    with pytest.raises(psycopg.Error, match="the transaction has changes, of which the job may be one"):
        call(erp, "wait", "suc0001", made.job_id, 60)
