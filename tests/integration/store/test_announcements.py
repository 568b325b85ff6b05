"""The types that running code announces, and their removal."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from tests.event_handlers import Ledger, Pay
from tests.installation import ExampleInstallation
from turno.jobs.handler import Registry
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine

DAY = timedelta(days=1)


def test_type_stays_while_announced_or_with_open_jobs(example: ExampleInstallation) -> None:
    """`turno db migrate` of a release without the type does not refuse the SQL of the release that has it."""
    example.engine.announce(of(Registry.of((Ledger, Pay))), 20)
    Engine.on(example.admin).announce(of(Registry.of((Ledger,))), 20, replace_newer=True)
    (made,) = example.rows("SELECT job_id FROM turno.enqueue('suc0001', 'pay', '{\"order_id\": 1}')")
    known = "SELECT type FROM turno.handlers WHERE type IN ('pay', 'ledger') ORDER BY 1"
    example.rows("UPDATE turno.handlers SET seen_at = seen_at - interval '25 hours' WHERE type IN ('pay', 'ledger')")
    example.engine.prune(DAY, DAY, 1000)
    assert example.rows(known) == [{"type": "pay"}]
    example.cancel(made["job_id"])
    worker = example.engine.start_worker(backend="exec", host="test", pid=1, types=[("pay", 1)])
    example.engine.prune(DAY, DAY, 1000)
    assert example.rows(known) == [{"type": "pay"}]
    example.rows("DELETE FROM turno.workers WHERE id = %s", worker)
    example.engine.prune(DAY, DAY, 1000)
    assert example.rows(known) == []


@pytest.mark.parametrize("table", ["handlers", "handler_payloads"])
def test_announcement_waits_for_no_process_that_froze(example: ExampleInstallation, table: str) -> None:
    """A frozen pool keeps its row locks, and the rescue of its jobs begins with an announcement."""
    facts = of(Registry.of((Ledger,)))
    example.engine.announce(facts, 20)
    age = sql.SQL("UPDATE turno.{} SET seen_at = seen_at - interval '2 minutes'").format(sql.Identifier(table))
    with psycopg.connect(example.url) as frozen:
        frozen.execute(age)
        frozen.commit()
        frozen.execute(age)
        example.engine.announce(facts, 20)
        frozen.rollback()
