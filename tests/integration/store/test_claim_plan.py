"""Execution of the statements of `claim` on each server: in the order of one index, with no more rows than needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from tests.installation import KEY
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company

TENANTS, SLOTS, BEGIN = 200, 5, 150
FILL = """
INSERT INTO tenants (slug, company_id, schema, owner_role, handler_role, api_role, state)
SELECT 't' || i, c.id, 't_' || lpad(to_hex(i), 12, '0'), 'o' || i, 'r' || i, 'a' || i, 'active'
FROM companies c, generate_series(1, %s) AS i;
"""
WAIT = """
INSERT INTO tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)
SELECT gen_random_uuid(), n.id, 'hot', 'work', 1, i % 3, clock_timestamp() - i * interval '1 s', 'ready', 'exec'
FROM tenants n, generate_series(1, 30) AS i
"""
TICKETS = "SELECT job_id, priority, run_at FROM tickets"
CLAIM = """
SELECT (c.ticket).job_id, (c.ticket).tenant_id
FROM claim(%s, 'exec', '{hot}', '{work}', '{1}', '{4}', %s, '{}', %s, 0, false, NULL) AS c
"""
EXPLAIN = """
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; SET auto_explain.log_nested_statements = on;
SET auto_explain.log_format = json; SET client_min_messages = log;
"""
# The statements by their first words: 2. next tenant, 3. its lanes, 4. one batch.
STEPS = {"next": "SELECT coalesce((SELECT g.until", "lanes": "lanes := ARRAY(", "batch": "WITH batch AS"}
Step = list[dict[str, Any]]


@pytest.fixture(scope="module")
def admin(each_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's session in a database where many tenants have ready tickets."""
    with psycopg.connect(each_database, autocommit=True) as admin:
        logins = Logins(each_database, KEY.encode())
        install(admin, logins)
        add_company(admin, logins, "northwind", "Northwind Traders")
        admin.execute("SET search_path = turno")
        admin.execute(FILL, [TENANTS])
        admin.execute(WAIT)
        admin.execute("ANALYZE tickets")
        yield admin


def worker(admin: psycopg.Connection[Any]) -> Any:
    row = admin.execute("SELECT worker_start('exec', 'here', 1, NULL, '{}', '{}')").fetchone()
    assert row is not None
    return row[0]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


@pytest.fixture(scope="module")
def executed(admin: psycopg.Connection[Any]) -> dict[str, list[Step]]:
    """The plans of a claim for a few of many tenants, by step: one for each execution."""
    messages: list[str] = []
    admin.add_notice_handler(lambda diagnostic: messages.append(diagnostic.message_primary or ""))
    by = worker(admin)
    admin.execute(EXPLAIN)
    admin.execute(CLAIM, [by, SLOTS, BEGIN])
    admin.execute("SET auto_explain.log_min_duration = -1; SET client_min_messages = warning")
    admin.execute("UPDATE tickets SET state = 'ready', worker_id = NULL, token = NULL WHERE state = 'running'")
    plans = [json.loads(message[message.index("{") :]) for message in messages if "plan:" in message]
    return {
        name: [list(nodes(plan["Plan"])) for plan in plans if plan["Query Text"].lstrip().startswith(words)]
        for name, words in STEPS.items()
    }


def scans(step: Step) -> Step:
    return [node for node in step if node.get("Relation Name") == "tickets" and "Scan" in node["Node Type"]]


def test_a_claim_searches_no_more_tenants_than_slots(executed: dict[str, list[Step]]) -> None:
    assert {name: len(steps) for name, steps in executed.items()} == dict.fromkeys(STEPS, SLOTS)


def test_a_claim_reads_no_more_tickets_than_it_takes(executed: dict[str, list[Step]]) -> None:
    for step in executed["batch"]:
        (locked,) = [node for node in step if node["Node Type"] == "LockRows"]
        assert locked["Actual Rows"] * locked["Actual Loops"] == 4
    for steps in executed.values():
        for scan in [scan for step in steps for scan in scans(step)]:
            assert scan["Actual Rows"] <= 4, scan


def test_tickets_are_found_in_the_order_of_one_index(executed: dict[str, list[Step]]) -> None:
    result = {
        name: {(scan["Node Type"], scan.get("Index Name")) for step in steps for scan in scans(step)}
        for name, steps in executed.items()
    }
    assert result == {
        "next": {("Index Only Scan", "tickets_by_tenant")},
        "lanes": {("Index Only Scan", "tickets_by_tenant")},
        "batch": {("Index Scan", "tickets_by_tenant"), ("Tid Scan", None)},
    }
    reordering = {"Hash Join", "Merge Join", "Seq Scan", "Bitmap Heap Scan"}
    assert not [
        node for steps in executed.values() for step in steps for node in step if node["Node Type"] in reordering
    ]


def test_claims_go_tenant_after_tenant_by_priority_and_age(admin: psycopg.Connection[Any]) -> None:
    with admin.cursor(row_factory=namedtuple_row) as cursor:
        claimed: list[Any] = cursor.execute(CLAIM, [worker(admin), 2 * SLOTS, TENANTS - 2]).fetchall()
    order = {job_id: (priority, run_at) for job_id, priority, run_at in admin.execute(TICKETS).fetchall()}
    rows = [(claim.tenant_id, *order[claim.job_id]) for claim in claimed]
    tenants = list(dict.fromkeys(tenant for tenant, _, _ in rows))
    assert tenants == [TENANTS - 2, TENANTS - 1, TENANTS, *range(1, 2 * SLOTS - 2)]
    assert len(rows) == 4 * 2 * SLOTS
    for tenant in tenants:
        mine = [(priority, run_at) for owner, priority, run_at in rows if owner == tenant]
        assert mine == sorted(mine)
        assert {priority for priority, _ in mine} == {0}
