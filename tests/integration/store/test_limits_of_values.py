"""Values that are too large or too far are refused under their field's name; an end of a job is shortened instead."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from handlers.batch_invoicing import BatchInvoicing
from tests import attempt_steps, claiming
from tests.fakes import RecordingQueue
from tests.installation import ExampleInstallation
from turno.dispatch.dispatcher import ENQUEUE, Dispatcher
from turno.errors import HandlerMisuse, LimitExceeded
from turno.jobs.job import Claim
from turno.jobs.new_job import NewJob, as_json
from turno.runner.session import HandlerConnection
from turno.store.engine.engine import Engine
from turno.store.handler import attempts
from turno.store.operator import routing
from turno.store.statements import named_refusals, qualified
from turno.tenancy.identity.session import handler_session, service_session
from turno.web.responses import FieldProblem, Kind, problem_of

LONG = "0123456789abcdef" * 400
NOW = timedelta(0)
FIELDS = (
    "type",
    "queue",
    "payload",
    "user_id",
    "run_at",
    "expires_at",
    "idempotency_key",
    "correlation_id",
    "trace_context",
)


@pytest.fixture
def session(example: ExampleInstallation) -> Iterator[HandlerConnection]:
    session = handler_session(example.logins, example.handler_login(), application="test", kind=HandlerConnection)
    yield session
    psycopg.Connection.close(session)


@pytest.fixture
def running(example: ExampleInstallation, session: HandlerConnection) -> Claim:
    """A job at work in the session's open transaction."""
    worker = example.engine.start_worker(backend="exec", host="here", pid=1)
    claim = example.engine.claim_job(worker, example.enqueue({"order_ids": [1]}), types=[("batch_invoicing", 1)])
    assert claim is not None
    attempt_steps.start(session, claim, "here/1")
    attempt_steps.begin(session)
    return claim


FAULTY_RESULT = {"text": 'quoted "so", \\ and {, }\n', "null": None, "names": ["NULL", "", "ñandú 🦤"]}


def test_a_completed_job_keeps_its_result_to_the_letter(
    example: ExampleInstallation, session: HandlerConnection, running: Claim
) -> None:
    attempt_steps.complete(session, running, json.dumps(FAULTY_RESULT, ensure_ascii=False))
    psycopg.Connection.commit(session)
    assert example.job(running.job_id)["result"] == FAULTY_RESULT


ENQUEUED = {
    "queue": ("x" * 64, "queue has 1 to 63 bytes"),
    "no queue": ("", "queue has 1 to 63 bytes"),
    "type": ("x" * 128, "type has 1 to 127 bytes"),
    "user_id": ("x" * 256, "user has 1 to 255 characters"),
    "idempotency_key": ("é" * 128, "idempotency_key has 1 to 255 bytes"),
    "correlation_id": (LONG, "correlation_id has at most 255 bytes"),
    "trace_context": (LONG, "trace_context has at most 512 bytes"),
    "payload": (json.dumps({"x": "y" * 4_200_000}), "payload has at most 4 MB as text"),
    "deep payload": ('{"a": ' * 300 + "1" + "}" * 300, "JSON nests at most 200 deep"),
    "payload with a number that Python cannot read": ('{"a": 1e4400}', "JSON has no number beyond 1e308"),
    "run_at": ("-infinity", "run_at is from 2000 to 9999, or infinity"),
    "late run_at": ("294276-12-31", "run_at is from 2000 to 9999, or infinity"),
    "expires_at": ("infinity", "expires_at is from 2000 to 9999"),
    "early expires_at": ("0044-03-15 BC", "expires_at is from 2000 to 9999"),
}


@pytest.mark.parametrize("case", ENQUEUED)
def test_a_job_beyond_a_limit_is_refused_under_the_field_s_name(example: ExampleInstallation, case: str) -> None:
    value, limit = ENQUEUED[case]
    field = max(name for name in FIELDS if name in case)
    changed: dict[str, Any] = {field: "given"}
    given = as_json([replace(example.new_job({"order_ids": [1]}), **changed)])
    given = given.replace('"given"', value if field == "payload" else json.dumps(value))
    with pytest.raises(LimitExceeded) as refused, named_refusals():
        example.call(ENQUEUE, (given, None, None, None))
    assert str(refused.value) == limit
    assert example.rows("SELECT 1 FROM turno.tickets") == []


def test_ticket_enforces_its_limits(example: ExampleInstallation) -> None:
    """Shared tables do not depend on the checks of a tenant's functions."""
    job_id = example.enqueue({"order_ids": [1]})
    for column, value in {"queue": LONG, "type": LONG, "run_at": "-infinity"}.items():
        with pytest.raises(psycopg.errors.CheckViolation, match=column):
            example.rows(f"UPDATE turno.tickets SET {column} = %s WHERE job_id = %s", value, job_id)  # noqa: S608


Write = Callable[[HandlerConnection, Claim], object]
WRITTEN: dict[str, tuple[Write, str]] = {
    "the state of a checkpoint": (lambda s, c: attempts.checkpoint(s, c, "x" * 1_100_000), "state has at most 1 MB"),
    "an item's key": (lambda s, c: attempts.items(s, c, [item(key="k" * 256)], 1), "key has 1 to 255 characters"),
    "an item's ref": (lambda s, c: attempts.items(s, c, [item(ref="r" * 1001)], 1), "ref has at most 1000 characters"),
    "an item's error": (lambda s, c: attempts.items(s, c, [item(state="failed", error=[1])], 1), "error is an object"),
    "a result": (lambda s, c: attempt_steps.complete(s, c, json.dumps({"x": "y" * 1_100_000})), "result has at most"),
    "the time to run again": (lambda s, c: release_at(s, c, "294276-01-01"), "run_at is from 2000 to 9999"),
    "a time before time": (lambda s, c: release_at(s, c, "-infinity"), "run_at is from 2000 to 9999"),
}


def item(**fields: Any) -> dict[str, Any]:
    return {"key": "1", "state": "done"} | fields


def release_at(session: HandlerConnection, claim: Claim, run_at: str) -> None:
    with named_refusals():
        end = "SELECT {}.attempt_end(%s, %s, 'released', '', NULL, %s, NULL, false, NULL)"
        session.execute(qualified(end, claim.login.schema), (claim.job_id, claim.token, run_at))


@pytest.mark.parametrize("case", WRITTEN)
def test_attempt_writes_beyond_a_limit_are_refused_by_name(
    session: HandlerConnection, running: Claim, case: str
) -> None:
    write, limit = WRITTEN[case]
    with pytest.raises(LimitExceeded, match=limit):
        write(session, running)


def test_release_without_a_time_needs_a_doubt(session: HandlerConnection, running: Claim) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="run_at is finite for a job without a doubt"):
        release_at(session, running, "infinity")


ERRORS: dict[str, Any] = {
    "large": {"class": "E" * 500, "message": "m" * 3_000_000, "traceback": "t" * 3_000_000},
    "a list": ["no", "object"],
    "deep": json.loads('{"a": ' * 300 + '"x"' + "}" * 300),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("retry_in", [NOW, None])
def test_no_error_is_too_large_to_end_an_attempt(
    example: ExampleInstallation, session: HandlerConnection, running: Claim, error: str, retry_in: timedelta | None
) -> None:
    status = attempt_steps.fail(session, running, "because " * 1000, ERRORS[error], retry_in)
    psycopg.Connection.commit(session)
    job = example.job(running.job_id)
    assert (job["status"], status) == (("pending",) * 2 if retry_in is not None else ("failed",) * 2)
    assert len(job["reason"]) == 1000
    assert job["reason"].endswith("…")
    assert len(job["error"]["message"]) <= 2000
    assert len(job["error"]["class"]) <= 200


def test_a_reason_for_cancelling_is_shortened(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    row = example.call("SELECT {}.job_cancel(%s, NULL, %s) AS verdict", (job_id, LONG))
    assert row["verdict"] == "cancelled"
    (reply,) = example.rows("SELECT data ->> 'reason' AS reason FROM notifications")
    assert example.job(job_id)["reason"] == reply["reason"] == LONG[:999] + "…"


def test_a_progress_message_is_shortened(
    example: ExampleInstallation, session: HandlerConnection, running: Claim
) -> None:
    attempts.progress(session, running, 1, 2, LONG)
    psycopg.Connection.commit(session)
    (row,) = example.rows("SELECT message FROM background_job_progress")
    assert row["message"] == LONG[:999] + "…"


def test_a_ledger_is_full_before_it_is_too_large_to_be_purged(
    example: ExampleInstallation, session: HandlerConnection, running: Claim
) -> None:
    attempts.progress(session, running, 1_000_000, 1_000_000, None)
    with pytest.raises(HandlerMisuse, match="room for a million items"):
        attempts.items(session, running, [item()], 1)
    psycopg.Connection.rollback(session)
    assert example.rows("SELECT 1 FROM background_job_items") == []


def test_submission_beyond_a_limit_names_the_field(example: ExampleInstallation) -> None:
    @contextmanager
    def connection() -> Iterator[psycopg.Connection[Any]]:
        yield example.web

    dispatcher = Dispatcher(connection=connection, queue=RecordingQueue(), pending_limit=9)
    with pytest.raises(LimitExceeded, match="user has 1 to 255 characters"):
        dispatcher.submit(example.one, NewJob.of(BatchInvoicing, {}, user_id="u" * 256))


def test_the_web_answers_a_broken_limit_with_the_field() -> None:
    problem = problem_of(LimitExceeded("payload has at most 4 MB as text"))
    assert problem.kind is Kind.INVALID_REQUEST
    assert problem.errors == (FieldProblem("payload", "payload has at most 4 MB as text"),)


# One bad row -------------------------------------------------------------------------------------------


@contextmanager
def refusing(example: ExampleInstallation, job_id: UUID, condition: str) -> Iterator[None]:
    """Have the ticket of this job refuse rows against the condition: an unexpected limit."""
    example.admin.execute(
        f"ALTER TABLE turno.tickets ADD CONSTRAINT faulty CHECK (job_id <> '{job_id}' OR {condition})"
    )
    yield
    example.admin.execute("ALTER TABLE turno.tickets DROP CONSTRAINT faulty")


@contextmanager
def engine_of(example: ExampleInstallation) -> Iterator[Engine]:
    with Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine:
        yield engine


def test_unpromotable_ticket_blocks_no_ticket(example: ExampleInstallation, caplog: pytest.LogCaptureFixture) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    bad, *good = (example.enqueue({"order_ids": [n]}, run_at=soon) for n in range(3))
    with refusing(example, bad, "state <> 'ready'"), engine_of(example) as engine, caplog.at_level(logging.WARNING):
        example.make_due()
        assert engine.promote(10) == 2
        assert engine.promote(10) == 0
    assert f"job {bad} of suc0001 was set aside" in caplog.text
    states = {row["job_id"]: row["state"] for row in example.rows("SELECT job_id, state FROM turno.tickets")}
    assert states == {bad: "review", good[0]: "ready", good[1]: "ready"}


def test_ticket_refusing_every_change_blocks_no_other(example: ExampleInstallation) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    bad, good = (example.enqueue({"order_ids": [n]}, run_at=soon) for n in range(2))
    example.make_due()
    due = example.ticket(bad)
    assert due is not None
    with refusing(example, bad, f"state = 'scheduled' AND run_at = '{due['run_at'].isoformat()}'"):
        assert example.engine.promote(10) == 1
        claimed = claiming.claim(
            example.engine,
            example.engine.start_worker(backend="exec", host="here", pid=1),
            queues=["cold"],
            types=[("batch_invoicing", 1)],
            backend="exec",
            slots=5,
        )
    assert [claim.job_id for claim in claimed] == [good]


@pytest.mark.parametrize("way", ["move_unserved", "reroute"])
def test_ticket_with_stuck_backend_blocks_no_other(example: ExampleInstallation, way: str) -> None:
    bad, good = (example.enqueue({"order_ids": [n]}) for n in range(2))
    with refusing(example, bad, "backend <> 'pool' OR state <> 'ready'"):
        if way == "move_unserved":
            example.engine.start_worker(backend="pool", host="here", pid=1)
            moved = example.engine.move_unserved("pool", NOW)
        else:
            with service_session(example.logins, example.logins.operator, application="test") as operator:
                moved = routing.reroute(operator, "pool")
    assert moved >= 1
    first, second = example.ticket(good), example.ticket(bad)
    assert first is not None
    assert second is not None
    assert (first["backend"], first["state"]) == ("pool", "ready")
    assert second["state"] == "review"


def test_inexpirable_job_blocks_no_job_of_its_tenant(example: ExampleInstallation) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    bad, good = (example.enqueue({"order_ids": [n]}, expires_at=past) for n in range(2))
    table = f'"{example.one.schema}".background_jobs'
    example.admin.execute(f"ALTER TABLE {table} ADD CONSTRAINT faulty CHECK (id <> '{bad}' OR status <> 'cancelled')")
    try:
        assert example.engine.expire(example.one.schema) == 1
    finally:
        example.admin.execute(f"ALTER TABLE {table} DROP CONSTRAINT faulty")
    assert (example.job(good)["reason"], example.job(bad)["status"]) == ("expired", "pending")


def test_parked_ticket_has_a_readable_time(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.rows("UPDATE turno.tickets SET run_at = 'infinity', state = 'review' WHERE job_id = %s", job_id)
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        assert operator.execute("SELECT oldest FROM ticket_counts").fetchall() == [(None,)]
