"""Which lines a worker writes, which it tries again, and which it lets go."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg

from turno.jobs.job import Claim
from turno.runner.line_ring import Line
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker import job_logs
from turno.worker.job_logs import JobLogs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from turno.store.engine.engine import LoggedLine


class FakeEngine:
    """An engine's link with prepared refusals by the tenant's schema."""

    def __init__(self) -> None:
        self.refusals: dict[str, type[psycopg.Error]] = {}
        self.written: list[tuple[str, str]] = []
        self.away = False
        self.again_at = 0.0

    def put_logs(self, schema: str, lines: Sequence[LoggedLine], *, keep: int) -> None:
        del keep
        if schema in self.refusals:
            raise self.refusals[schema]("refused")
        self.written += [(schema, line.line) for line in lines]


class Child:
    """A child with a job that has logged one line for each of these schemas."""

    def __init__(self, *schemas: str) -> None:
        self.schemas = schemas

    def take_lines(self) -> list[tuple[Claim, Line]]:
        lines = [(a_claim(schema), Line(1, 0, 1, 0.0, "INFO", "shop", "said")) for schema in self.schemas]
        self.schemas = ()
        return lines


def a_claim(schema: str) -> Claim:
    login = HandlerLogin(slug=schema, schema=schema, role="r", epoch=0)
    return Claim(job_id=uuid4(), token=uuid4(), attempt=1, type="faulty", version=1, tenant_id=1, login=login)


def test_locked_tenant_delays_lines_and_refusal_ends_them() -> None:
    engine = FakeEngine()
    logs = JobLogs(engine, keep=9)  # type: ignore[arg-type]
    engine.refusals = {"locked": psycopg.errors.LockNotAvailable, "gone": psycopg.errors.InvalidSchemaName}
    logs.collect(Child("locked", "gone", "sound"))  # type: ignore[arg-type]
    logs.flush(at_once=True)
    assert engine.written == [("sound", "said")]
    engine.refusals = {}
    logs.flush(at_once=True)
    assert engine.written == [("sound", "said"), ("locked", "said")]


def test_lines_wait_for_a_database_that_is_away_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "MOST_WAITING", 2)
    engine = FakeEngine()
    logs = JobLogs(engine, keep=9)  # type: ignore[arg-type]
    engine.refusals = {"one": psycopg.OperationalError}
    logs.collect(Child("one", "one", "one"))  # type: ignore[arg-type]
    logs.flush(at_once=True)
    engine.refusals = {}
    logs.flush(at_once=True)
    assert engine.written == [("one", "said")] * 2


def test_lines_of_a_locked_tenant_displace_no_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "MOST_WAITING", 4)
    engine = FakeEngine()
    logs = JobLogs(engine, keep=9)  # type: ignore[arg-type]
    engine.refusals = {"locked": psycopg.errors.LockNotAvailable}
    for _ in range(3):
        logs.collect(Child("locked", "locked", "locked", "locked"))  # type: ignore[arg-type]
        logs.flush(at_once=True)
    logs.collect(Child("sound", "sound", "other"))  # type: ignore[arg-type]
    logs.flush(at_once=True)
    assert engine.written == [("sound", "said")] * 2 + [("other", "said")]
    engine.refusals, engine.written = {}, []
    logs.flush(at_once=True)
    assert engine.written == [("locked", "said")]
