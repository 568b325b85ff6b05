"""The end of an attempt: its handler cannot be loaded, its settings would reach its record, its commit collides."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.attempt_in_process import attempt, claim_in_process
from tests.batch_in_process import claim_batches_in_process, execute_batch_in_process, handler_sessions
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty, FaultyBatched
from tests.misdeeds.deed import DEEDS, FaultyPayload
from tests.misdeeds.transactions import TRIES
from turno.errors import NotStarted, PermanentFailure
from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import UNLIMITED, Cancel, Reschedule, RetryPolicy
from turno.runner.executor import COLLISIONS
from turno.runner.session import HandlerConnection, Sessions
from turno.runner.shared_state import SharedState
from turno.runner.transaction import BatchTransaction
from turno.tenancy.identity.session import LoginRefused, handler_session
from turno.testing.in_process_worker import InProcessWorker

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Unmade(JobHandler[FaultyPayload]):
    """A handler that cannot be made."""

    type = "unmade"

    def __init__(self) -> None:
        raise KeyError("its configuration")

    def handle(self, job: JobContext, payload: FaultyPayload) -> dict[str, Any] | Reschedule | Cancel:
        """Never called."""
        raise NotImplementedError


def test_a_handler_that_cannot_be_made_is_an_error_and_counted(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "ok"}, handler=Faulty, max_attempts=2)
    example.rows("UPDATE background_jobs SET type = 'unmade'")
    example.rows("UPDATE turno.tickets SET type = 'unmade'")
    worker = InProcessWorker(example, Registry.of([Unmade]))
    for status, errors in (("pending", 1), ("failed", 2)):
        example.make_due()
        claim = worker.claim(job_id)
        assert claim is not None
        assert worker.execute(claim) == status
        job = example.job(job_id)
        assert (job["status"], job["errors"], job["crashes"], job["error"]["class"]) == (status, errors, 0, "KeyError")


@pytest.mark.parametrize(
    "settings",
    [
        "SET default_transaction_read_only = on",
        "SET default_transaction_isolation = 'serializable'; SET default_transaction_read_only = on",
    ],
)
def test_session_settings_do_not_reach_the_record(example: ExampleInstallation, settings: str) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "leave_settings", "text": settings}, handler=Faulty)
    job = attempt(example, job_id)
    assert (job["status"], job["errors"], job["error"]["class"]) == ("pending", 1, "ValueError")


@pytest.fixture
def meeting(example: ExampleInstallation) -> Iterator[ExampleInstallation]:
    """A tenant with a table that refuses every commit as a collision."""
    example.faulty = True
    TRIES.clear()
    example.rows(
        """
        CREATE TABLE met_at_commit (n integer);
        CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '40001'; END $$;
        CREATE CONSTRAINT TRIGGER meet AFTER INSERT ON met_at_commit DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION meet();
        """
    )
    example.rows(f"GRANT INSERT ON met_at_commit TO {example.one.handler_role}")
    yield example
    example.rows("DROP TABLE met_at_commit; DROP FUNCTION meet")
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


def test_collision_at_commit_reruns_at_once_uncounted(meeting: ExampleInstallation) -> None:
    job = attempt(meeting, meeting.enqueue({"how": "collide_at_commit", "text": "a", "number": 2}, handler=Faulty))
    assert (job["status"], job["errors"], job["attempt"]) == ("completed", 0, 1)
    assert job["result"] == {"runs": 3}
    assert len(meeting.rows("SELECT 1 FROM notifications")) == 1


def test_repeated_collision_is_an_error(meeting: ExampleInstallation) -> None:
    job = attempt(meeting, meeting.enqueue({"how": "collide_at_commit", "text": "b", "number": 99}, handler=Faulty))
    assert (job["status"], job["errors"], job["error"]["sqlstate"]) == ("pending", 1, "40001")
    assert TRIES["b"] == COLLISIONS


def test_collision_in_batch_costs_its_neighbour_nothing(meeting: ExampleInstallation) -> None:
    meeting.backend = "pool"
    jobs = [
        meeting.enqueue({"how": "collide_at_commit", "text": name}, handler=FaultyBatched) for name in ("ALFA", "BETA")
    ]
    meeting.rows("UPDATE background_jobs SET payload = payload || '{\"number\": 1}' WHERE id = %s", jobs[0])
    (claims,) = claim_batches_in_process(meeting)
    statuses = execute_batch_in_process(meeting, claims)
    assert set(statuses.values()) == {"completed"}, [meeting.job(job) for job in jobs]
    assert [(meeting.job(job)["errors"], meeting.job(job)["attempt"]) for job in jobs] == [(0, 1)] * 2


def test_failed_job_is_one_log_line_without_message(
    example: ExampleInstallation, caplog: pytest.LogCaptureFixture
) -> None:
    example.faulty = True
    insert = "INSERT INTO customers SELECT * FROM customers LIMIT 1"
    ids: dict[str, Any] = {"correlation_id": "order-42", "trace_context": f"00-{TRACE}-00f067aa0ba902b7-01"}
    job_id = example.enqueue({"how": "run_sql", "text": insert}, handler=Faulty, max_attempts=1, **ids)
    with caplog.at_level(logging.INFO):
        job = attempt(example, job_id)
    assert "DETAIL" in job["error"]["message"]
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == "job failed, no attempts left: UniqueViolation"
    fields = {name: getattr(record, name) for name in ("tenant", "job_id", "type", "attempt")}
    assert fields == {"tenant": "suc0001", "job_id": str(job_id), "type": "faulty", "attempt": 1}
    of_attempt = [record for record in caplog.records if hasattr(record, "attempt")]
    assert len(of_attempt) == 3  # the error and where it was raised, the failed job, the attempt's end
    assert {(vars(record)["correlation_id"], vars(record)["trace_id"]) for record in of_attempt} == {
        ("order-42", TRACE)
    }


@pytest.fixture
def lent(example: ExampleInstallation) -> Iterator[Sessions]:
    lent = handler_sessions(example, keep=2)
    yield lent
    lent.close()


def test_start_lock_is_distinguished_from_outage(example: ExampleInstallation, lent: Sessions) -> None:
    claim = claim_in_process(example, example.enqueue({"order_ids": [1]}))
    with (
        closing(BatchTransaction((claim,), lent, SharedState(), "test")) as transaction,
        psycopg.connect(example.url) as rival,
    ):
        rival.execute(f"LOCK TABLE {example.one.schema}.background_jobs IN ACCESS EXCLUSIVE MODE")
        # Shorter than a handler's own statements wait for a lock: others wait for this child.
        transaction.connection.execute("SET statement_timeout = '5s'")
        with pytest.raises(NotStarted) as refused:
            transaction.fetch((claim,))
        rival.rollback()
    assert isinstance(refused.value.__cause__, psycopg.errors.LockNotAvailable)
    assert example.job(claim.job_id)["status"] == "pending"


def test_refused_login_is_distinguished_from_outage(example: ExampleInstallation) -> None:
    def log_in(logins: Any, password_epoch: int = 0) -> None:
        login = example.handler_login()
        login = type(login)(slug=login.slug, schema=login.schema, role=login.role, epoch=login.epoch + password_epoch)
        psycopg.Connection.close(handler_session(logins, login, application="test", kind=HandlerConnection))

    log_in(example.logins)
    with pytest.raises(LoginRefused):
        log_in(example.logins, password_epoch=1)
    away = type(example.logins)(
        "postgresql://127.0.0.1:1/turno", example.logins.master_key, example.logins.installation
    )
    with pytest.raises(psycopg.OperationalError) as error:
        log_in(away)
    assert not isinstance(error.value, LoginRefused)


class Unreadable(Exception):
    """An error with a text that raises another."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def raised(error: Exception) -> None:
    raise error


class Unspeakable(Cancel):
    """An outcome that checks nothing."""

    def __post_init__(self) -> None:
        """Accept anything."""


class Never(Reschedule):
    """The same for a time."""

    def __post_init__(self) -> None:
        """Accept anything."""


@pytest.mark.parametrize(
    ("outcome", "status", "error"),
    [
        (lambda: Cancel("no\x00sense"), "failed", "InvalidResult"),
        (lambda: Cancel("half \ud83d"), "failed", "InvalidResult"),
        (lambda: Cancel(None), "failed", "InvalidResult"),  # type: ignore[arg-type]
        (lambda: Cancel("x" * 100_000), "cancelled", None),
        (lambda: Reschedule(after=math.inf), "failed", "InvalidResult"),
        (lambda: Reschedule(after=math.nan), "failed", "InvalidResult"),
        (lambda: Reschedule(after=1e300), "failed", "InvalidResult"),
        (lambda: Reschedule(after=timedelta.max), "failed", "InvalidResult"),
        (lambda: Reschedule(at=datetime.max.replace(tzinfo=UTC)), "failed", "InvalidResult"),
        (lambda: Reschedule(at=datetime.min.replace(tzinfo=UTC)), "failed", "InvalidResult"),
        (lambda: Unspeakable("no\x00sense"), "failed", "InvalidResult"),
        (lambda: Unspeakable("half \ud83d"), "failed", "InvalidResult"),
        (lambda: Unspeakable(object()), "failed", "InvalidResult"),  # type: ignore[arg-type]
        (lambda: Never(after=math.inf), "failed", "InvalidResult"),
        (lambda: Never(at=datetime.min.replace(tzinfo=UTC)), "failed", "InvalidResult"),
        (lambda: {"text": "a\x00b"}, "failed", "InvalidResult"),
        (lambda: {"a\x00b": 1}, "failed", "InvalidResult"),
        (lambda: raised(Unreadable()), "pending", "Unreadable"),
        (lambda: raised(PermanentFailure("no\x00sense \ud83d")), "failed", "PermanentFailure"),
    ],
)
def test_an_outcome_that_cannot_be_stored_fails_with_its_cause(
    example: ExampleInstallation,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Callable[[], Any],
    status: str,
    error: str | None,
) -> None:
    monkeypatch.setitem(DEEDS, "ok", lambda *_: outcome())
    job = attempt(example, example.enqueue({"how": "ok"}, handler=Faulty))
    assert (job["status"], (job["error"] or {}).get("class")) == (status, error)
    assert job["crashes"] == 0


def test_first_errors_are_warnings_and_later_ones_errors(
    example: ExampleInstallation, caplog: pytest.LogCaptureFixture
) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "error"}, handler=Faulty, max_attempts=UNLIMITED)
    assert RetryPolicy.unlimited(longest=7200.0).max_attempts == UNLIMITED
    example.rows("UPDATE background_jobs SET errors = 2, attempt = 2 WHERE id = %s", job_id)
    example.rows("UPDATE turno.tickets SET attempt = 2")
    for _ in range(2):
        with caplog.at_level(logging.INFO):
            assert attempt(example, job_id)["status"] == "pending"
    lines = [
        record for record in caplog.records if record.getMessage() == "attempt failed, tried again in 0 s: ValueError"
    ]
    assert [(record.levelname, vars(record)["errors"]) for record in lines] == [("WARNING", 3), ("ERROR", 4)]
