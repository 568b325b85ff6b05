"""How the claim's statement is executed: in the order of its walk and no further than it must, on each server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

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
PLACES = "SELECT job_id, priority, run_at FROM tickets"
CLAIM = "SELECT * FROM {}(%s, 'exec', '{{hot}}', '{{work}}', '{{1}}', '{{4}}', %s, '{{}}', %s, 0, false, NULL)"


@pytest.fixture(scope="module")
def admin(each_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's session where many wait, and where `explain_claim` says how `claim` would be executed."""
    with psycopg.connect(each_database, autocommit=True) as admin:
        logins = Logins(each_database, KEY.encode())
        install(admin, logins)
        add_company(admin, logins, "northwind", "Northwind Traders")
        admin.execute("SET search_path = turno")
        admin.execute(FILL, [TENANTS])
        admin.execute(WAIT)
        admin.execute("ANALYZE tickets")
        row = admin.execute("SELECT pg_get_functiondef('claim'::regproc)").fetchone()
        assert row is not None
        definition = row[0].replace("FUNCTION turno.claim(", "FUNCTION turno.explain_claim(")
        head, returns, rest = definition.partition("RETURNS TABLE(")
        rest = (
            rest[rest.index(" LANGUAGE plpgsql") :] if " LANGUAGE plpgsql" in rest else rest[rest.index("LANGUAGE") :]
        )
        body = rest.replace("RETURN QUERY\n", "RETURN QUERY EXPLAIN (ANALYZE, FORMAT JSON)\n")
        assert returns
        assert body != rest
        admin.execute((head + "RETURNS SETOF json\n" + body).encode())
        yield admin


def worker(admin: psycopg.Connection[Any]) -> Any:
    row = admin.execute("SELECT worker_start('exec', 'here', 1, NULL, '{}', '{}')").fetchone()
    assert row is not None
    return row[0]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def scans(plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for step in plan if step.get("Relation Name") == "tickets" and "Scan" in step["Node Type"]]


@pytest.fixture(scope="module")
def plan(admin: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """Every step of a claim for a few of many tenants, as it was executed."""
    (row,) = admin.execute(CLAIM.format("explain_claim").encode(), [worker(admin), SLOTS, BEGIN]).fetchall()
    found = row[0] if isinstance(row[0], list) else json.loads(row[0])
    admin.execute("UPDATE tickets SET state = 'ready', worker_id = NULL, token = NULL WHERE state = 'running'")
    return list(nodes(found[0]["Plan"]))


def test_no_more_tenants_are_looked_for_than_there_are_slots(plan: list[dict[str, Any]]) -> None:
    (walk,) = [step for step in plan if step["Node Type"] == "Recursive Union"]
    assert walk["Actual Rows"] == 1 + SLOTS


def test_no_more_tickets_are_read_than_are_claimed(plan: list[dict[str, Any]]) -> None:
    (locked,) = [step for step in plan if step["Node Type"] == "LockRows"]
    assert locked["Actual Rows"] * locked["Actual Loops"] == SLOTS * 4
    for scan in scans(plan):
        assert scan["Actual Rows"] <= 4, scan


def test_tickets_are_found_in_the_order_of_one_index(plan: list[dict[str, Any]]) -> None:
    found = {(scan["Node Type"], scan.get("Index Name")) for scan in scans(plan)}
    assert found == {
        ("Index Only Scan", "tickets_by_tenant"),  # of who is next and where each band begins
        ("Index Scan", "tickets_by_tenant"),
        ("Tid Scan", None),  # of what was locked
    }
    reordering = {"Hash Join", "Merge Join", "Seq Scan", "Bitmap Heap Scan"}
    assert not [step for step in plan if step["Node Type"] in reordering]


def test_claims_come_tenant_after_tenant_best_band_and_oldest_first(admin: psycopg.Connection[Any]) -> None:
    with admin.cursor(row_factory=dict_row) as cursor:
        claimed = cursor.execute(CLAIM.format("claim").encode(), [worker(admin), 2 * SLOTS, TENANTS - 2]).fetchall()
    place = {job_id: (priority, run_at) for job_id, priority, run_at in admin.execute(PLACES).fetchall()}
    rows = [(claim["tenant_id"], *place[claim["job_id"]]) for claim in claimed]
    tenants = list(dict.fromkeys(tenant for tenant, _, _ in rows))
    assert tenants == [TENANTS - 2, TENANTS - 1, TENANTS, *range(1, 2 * SLOTS - 2)]
    assert len(rows) == 4 * 2 * SLOTS
    for tenant in tenants:
        mine = [(priority, run_at) for owner, priority, run_at in rows if owner == tenant]
        assert mine == sorted(mine)
        assert {priority for priority, _ in mine} == {0}
