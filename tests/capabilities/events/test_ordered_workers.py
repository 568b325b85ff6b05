"""Real workers run the events of a key one after another, though every job has to be tried twice."""

from __future__ import annotations

import psycopg
import pytest

import turno
from tests.event_handlers import REGISTRY_PATH
from tests.installation import ExampleInstallation
from turno.testing.invariants import judge_of
from turno.testing.wait import wait_until

ENDS = """
SELECT concurrency_key AS key, array_agg((payload ->> 'number')::integer ORDER BY finished_at) AS numbers
FROM background_jobs WHERE status = 'completed' AND key_position IS NOT NULL GROUP BY 1
"""
KEYS, EVENTS = 3, 4


def test_retries_overtake_no_event(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNO_HANDLERS", REGISTRY_PATH)
    example.registry, example.backend = REGISTRY_PATH, "pool"
    pools = [example.start_pool(TURNO_MIN_CHILDREN="2") for _ in range(2)]
    subscribed = "SELECT FROM turno.subscriptions WHERE event = 'stock.moved'"
    assert wait_until(lambda: len(example.rows(subscribed)) == 2, within=30)  # the workers have registered
    with psycopg.connect(example.url) as business:
        for number in range(EVENTS):
            for key in range(KEYS):
                turno.publish(business, "suc0001", "stock.moved", number=number, how="error", key=f"article-{key}")
            business.commit()

    def ends() -> list[list[int]]:
        example.make_due()  # no waiting between two attempts
        return [row["numbers"] for row in example.rows(ENDS)]

    in_order = [list(range(EVENTS))] * 2 * KEYS
    assert wait_until(lambda: ends() == in_order, within=60), ends()
    with judge_of(example.url, example.one) as judge:
        assert judge.broken() == []
    assert [pool.poll() for pool in pools] == [None, None]
