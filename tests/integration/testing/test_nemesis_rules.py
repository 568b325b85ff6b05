"""Each rule of events, orders, schedules and unique jobs finds its violation: rows that every guard would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

import pytest

from nemesis.effects import EFFECTS
from tests.installation import ExampleInstallation
from turno.testing.invariants import judge_of

CUSTOMER = "INSERT INTO customers (id, company_name, tax_condition, address, city, country) VALUES "
RECEIVED_EVENT = f"{CUSTOMER} ('{{}}', '7', 'exempt', 'a', 'token', '{{}}')"
# The second began before the first had ended; of three, all were at work at once.
JOBS = """
WITH made AS (
    INSERT INTO background_jobs (type, version, queue, priority, status, payload, user_id, max_attempts, attempt,
                                 created_at, started_at, finished_at, concurrency_key, key_position)
    SELECT '{}', 1, 'hot', 1, 'completed', '{{"pieces": 1}}', 'ana', 4, 1, now() + n * interval '1 s',
           now() + n * interval '1 s', now() + interval '10 s', {}
    FROM generate_series(1, 3) AS n RETURNING id, started_at, finished_at)
INSERT INTO background_job_attempt_rows (job_id, attempt, token, worker, backend_pid, started_at, finished_at, outcome)
SELECT id, 1, gen_random_uuid(), 'test', 1, started_at, finished_at, 'completed' FROM made
"""
RUN = "INSERT INTO job_schedule_runs (schedule_id, moment, job_id) VALUES ('{0}', '2026-11-23 10:0{1}:00', '{2}')"
ID = "00000000-0000-0000-0000-00000000000{}"
EVENT = (
    "INSERT INTO background_events (name, key, data, user_id) VALUES ('nemesis.told', 'a', '{\"number\": 7}', 'ana')"
)
WAITING = """
WITH made AS (
    INSERT INTO background_jobs (type, version, queue, priority, payload, user_id, max_attempts, concurrency_key,
                                 key_position)
    VALUES ('nemesis_in_order', 1, 'hot', 1, '{}', 'ana', 4, 'a', 1) RETURNING id, run_at)
INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, concurrency_key,
                           key_position)
SELECT id, (SELECT id FROM turno.tenants WHERE schema = current_schema()), 'hot', 'nemesis_in_order', 1, 1, run_at,
       'waiting', 'exec', 'a', 1 FROM made
"""
PARTS = """
UPDATE background_jobs p SET awaited_by = w.id FROM background_jobs w
WHERE w.status = 'completed' AND p.status = 'pending'
"""
SEEDS: dict[str, list[str]] = {
    "I9: more than two jobs of a key were at work at once": [JOBS.format("nemesis_pairs", "'pairs', NULL")],
    "I9: a job in an order overtook its predecessor": [JOBS.format("nemesis_in_order", "'a', n")],
    "I9: the next in an order is forgotten": [WAITING],
    "I9: an event was heard before an earlier one of its key": [RECEIVED_EVENT.format("1", "overtaken")],
    "I11: an event was heard in order twice": [
        RECEIVED_EVENT.format("1", "heard"),
        RECEIVED_EVENT.format("2", "heard"),
    ],
    "I11: a publication has no event, or an event has no publication": [RECEIVED_EVENT.format("1", "told")],
    "I11: an event has no job, or several jobs, of a subscriber": [EVENT],
    "I11: a moment of a schedule has no job, or several jobs": [RUN.format(ID.format(1), 1, ID.format(2))],
    "I11: a schedule omitted a moment": [RUN.format(ID.format(1), minute, ID.format(minute)) for minute in (1, 3)],
    "I10: a job whose parts have ended is forgotten": [
        WAITING,
        "UPDATE turno.tickets SET state = 'parts'",
    ],
    "I10: a completed job has a part that has not ended": [JOBS.format("nemesis_whole", "NULL, NULL"), WAITING, PARTS],
    "I10: a job has other parts than its payload requests": [JOBS.format("nemesis_whole", "NULL, NULL")],
    "I1: a unique job exists twice": [JOBS.format("nemesis_once", "NULL, NULL")],
}


@pytest.fixture(autouse=True)
def without_customers(example: ExampleInstallation) -> Iterator[None]:
    yield
    example.rows("DELETE FROM customers WHERE country IN ('heard', 'told', 'overtaken', 'step')")


@pytest.mark.parametrize("rule", SEEDS)
def test_the_judge_finds(example: ExampleInstallation, rule: str) -> None:
    with judge_of(example.url, example.one, EFFECTS) as judge:
        assert judge.broken() == []
        for seed in SEEDS[rule]:
            example.rows(seed)
        assert rule in {result.rpartition(": ")[0] for result in judge.broken()}


STEPS = """
WITH old AS (
    INSERT INTO background_jobs (type, version, queue, priority, status, payload, user_id, max_attempts, attempt,
                                 started_at, finished_at)
    VALUES ('nemesis_steps', 1, 'hot', 1, 'cancelled', '{"pieces": 2}', 'ana', 4, 1, now(), now()) RETURNING id
), retry AS (
    INSERT INTO background_jobs (type, version, queue, priority, status, payload, user_id, max_attempts, attempt,
                                 started_at, finished_at, parent_id)
    SELECT 'nemesis_steps', 1, 'hot', 1, 'completed', '{"pieces": 2}', 'ana', 4, 1, now(), now(), id FROM old
    RETURNING id
), reached AS (
    INSERT INTO background_job_checkpoints (job_id, state)
    SELECT id, to_jsonb(1) FROM old UNION ALL SELECT id, to_jsonb(2) FROM retry
), attempts AS (
    INSERT INTO background_job_attempt_rows (job_id, attempt, token, worker, backend_pid, finished_at, outcome)
    SELECT id, 1, gen_random_uuid(), 'test', 1, now(), 'cancelled' FROM old
    UNION ALL SELECT id, 1, gen_random_uuid(), 'test', 1, now(), 'completed' FROM retry
)
INSERT INTO customers (id, company_name, tax_condition, address, city, country)
SELECT gen_random_uuid()::text, id::text, 'exempt', '1', '1', 'step' FROM old
UNION ALL SELECT gen_random_uuid()::text, id::text, 'exempt', '2', '1', 'step' FROM retry
"""


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("SELECT", False),
        ("DELETE FROM customers WHERE country = 'step' AND address = '2'", True),
        ("DELETE FROM customers WHERE country = 'step' AND address = '1'", True),
        ("UPDATE customers SET city = '2' WHERE country = 'step' AND address = '2'", True),
    ],
    ids=["unchanged", "own step missing", "step of the old job missing", "step of no attempt"],
)
def test_steps_of_a_retry_follow_the_steps_of_its_job(
    example: ExampleInstallation, change: LiteralString, *, broken: bool
) -> None:
    example.rows(STEPS)
    example.rows(change)
    with judge_of(example.url, example.one, EFFECTS) as judge:
        rules = {result.rpartition(": ")[0] for result in judge.broken()}
    assert ("I2: a step is doubled, missing or of no attempt" in rules) is broken


def test_unique_job_after_the_previous_end_is_allowed(example: ExampleInstallation) -> None:
    example.rows(JOBS.format("nemesis_sole", "NULL, NULL"))
    sole: LiteralString = "UPDATE background_jobs SET finished_at = created_at + interval '0.9 s'"
    example.rows(sole)
    with judge_of(example.url, example.one, EFFECTS) as judge:
        result = [violation for violation in judge.broken() if violation.startswith("I1: a unique job exists")]
    assert result == []
