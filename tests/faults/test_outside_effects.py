"""An authority that fails in every way, and processes that die at every step of the call: nothing is issued twice.

AUTHORISATION_RUNS is the number of requests; 60 by default. `-o log_cli=true` shows the counts of a long run.
"""

from __future__ import annotations

import logging
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.authority import MOODS, Authority, tax_authority
from tests.hurried_sync import URL_VARIABLE, HurriedSync, StoppedSync
from tests.installation import ExampleInstallation
from turno.capabilities.effects import review
from turno.testing.build import FOREVER
from turno.testing.wait import wait_until

log = logging.getLogger(__name__)

AUTHORISATIONS = int(os.environ.get("AUTHORISATION_RUNS", "60"))
BATCH = 5
# Each child, or pool, that passes the step this number of times dies there.
DEATHS = ("intended:both:3", "called:both:3", "intended:self:3", "called:self:4", "settled:self:4", "")
FIRST_ORDER = 1_000_000


@pytest.fixture
def authority(example: ExampleInstallation) -> Iterator[Authority]:
    example.faulty = True
    example.backend = "pool"
    with tax_authority() as authority:
        example.extra[URL_VARIABLE] = authority.url
        yield authority


def invoices(example: ExampleInstallation, count: int) -> list[int]:
    """Make as many invoices, of orders of their own."""
    example.rows("DELETE FROM orders WHERE id >= %s", FIRST_ORDER)
    example.rows(
        "INSERT INTO orders (id, customer_id, ordered_on)"
        " SELECT %s + n, (SELECT min(customer_id) FROM orders), '2030-01-31' FROM generate_series(1, %s) AS n",
        FIRST_ORDER,
        count,
    )
    made = example.rows(
        "INSERT INTO invoices (order_id, point_of_sale, letter, number, customer_id, net_total, iva_total, total,"
        " currency) SELECT id, 1, 'B', id - %s, customer_id, 100, 21, 121, 'ARS' FROM orders WHERE id > %s"
        " RETURNING id",
        FIRST_ORDER,
        FIRST_ORDER,
    )
    return [row["id"] for row in made]


def settle(example: ExampleInstallation, authority: Authority) -> int:
    """Do a person's part: look at the authority's books, and settle the effects."""
    waiting = example.rows(
        "SELECT e.key, e.outside_key, min(j.id::text)::uuid AS job"
        " FROM external_effects e JOIN background_jobs j ON j.in_doubt = e.key GROUP BY e.key"
    )
    for effect in waiting:
        granted = authority.grant_of(str(effect["outside_key"]))
        result = None if granted is None else f'{{"code": "{granted["code"]}"}}'
        verdict = example.call(review.DECIDE, (effect["job"], None, effect["key"], result, "a test"))["verdict"]
        assert verdict in {"settled", "busy"}
    return len(waiting)


def continued(example: ExampleInstallation) -> int:
    """Do a user's part: retry failed jobs, until nothing is left."""
    ended = example.rows(
        "SELECT id FROM background_jobs j WHERE successor_id IS NULL AND (status = 'failed' OR status = 'completed'"
        " AND EXISTS (SELECT FROM background_job_items i WHERE i.job_id = j.id AND i.state = 'failed'))"
    )
    for job in ended:
        example.retry(job["id"])
    return len(ended)


def open_jobs(example: ExampleInstallation, *, parked: bool = True) -> int:
    condition = "" if parked else " AND run_at < 'infinity'"
    (row,) = example.rows(f"SELECT count(*) FROM background_jobs WHERE finished_at IS NULL{condition}")  # noqa: S608
    return int(row["count"])


@pytest.mark.timeout(120 + 2 * AUTHORISATIONS)
def test_no_failure_authorises_twice(example: ExampleInstallation, authority: Authority) -> None:
    authority.moods, authority.chance = MOODS, random.Random(AUTHORISATIONS)  # noqa: S311
    wanted = invoices(example, AUTHORISATIONS)
    for first in range(0, len(wanted), BATCH):
        example.enqueue({"invoice_ids": wanted[first : first + BATCH]}, handler=HurriedSync)
    pools = parked = 0
    for death in cycle(DEATHS):
        pool = example.start_pool(TURNO_MAX_CHILDREN="6", TURNO_CRASH_AT=death)
        pools += 1
        wait_until(lambda: pool.poll() is not None or not open_jobs(example, parked=False), within=15)  # noqa: B023
        pool.kill()
        pool.communicate()
        # Every caller is dead, and its requests are decided.
        assert wait_until(lambda: authority.in_flight == 0, within=10)
        example.time_passes()
        example.sweep()
        parked += settle(example, authority)
        if not continued(example) and not open_jobs(example):
            break
        assert pools < 20 + AUTHORISATIONS, "it does not come to an end"
    ledger = example.rows("SELECT key, ref FROM background_job_items WHERE state = 'done'")
    known = example.rows(
        "SELECT outside_key::text AS id, state, result ->> 'code' AS code, calls FROM external_effects"
    )
    assert authority.doubled == []
    assert sum(authority.grants.values()) == len(wanted) == len(known)
    assert {row["state"] for row in known} == {"done"}
    assert {row["code"] for row in known} == {f"CAE-{request_id}-1" for request_id in authority.grants}
    assert sorted(row["ref"] for row in ledger) == sorted(row["code"] for row in known)
    assert all(authority.requested[mood] for mood in MOODS)
    assert parked > 0
    calls = [row["calls"] for row in known]
    ends = Counter(row["outcome"] for row in example.rows("SELECT outcome FROM background_job_attempts"))
    log.warning("%d authorised once each, by %d calls; %d times parked", len(wanted), sum(calls), parked)
    log.warning("%d pools; attempts: %s; requests: %s", pools, dict(ends), dict(authority.requested))


def children(pool: Any) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{pool.pid}/task/{pool.pid}/children").read_text().split()]


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_process_woken_before_its_call_doubles_nothing(example: ExampleInstallation, authority: Authority) -> None:
    (invoice,) = invoices(example, 1)
    job_id: UUID = example.enqueue({"invoice_ids": [invoice]}, handler=StoppedSync)
    old = example.start_pool(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: any(stopped(pid) for pid in children(old)), within=30)
    (child,) = [pid for pid in children(old) if stopped(pid)]
    os.kill(old.pid, signal.SIGSTOP)
    example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour'")
    assert example.sweep()["rescued"] == 1
    example.time_passes()
    new = example.start_pool(TURNO_MAX_CHILDREN="1")
    # Not found, and the end of the old process is not confirmed: it may yet call, so a person decides.
    assert wait_until(lambda: example.job(job_id)["run_at"] == FOREVER, within=30)
    os.kill(child, signal.SIGCONT)
    assert wait_until(lambda: sum(authority.grants.values()) == 1, within=30)
    os.kill(old.pid, signal.SIGCONT)
    old.communicate(timeout=30)
    (effect,) = example.rows("SELECT state FROM external_effects")
    assert effect["state"] == "intended"  # a zombie's result is not written
    assert settle(example, authority) == 1
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
    assert list(authority.grants.values()) == [1]
    assert new.poll() is None


def test_child_death_in_call_is_seen_and_job_resumes(example: ExampleInstallation, authority: Authority) -> None:
    authority.moods = ("never",)
    (invoice,) = invoices(example, 1)
    job_id = example.enqueue({"invoice_ids": [invoice]}, handler=HurriedSync)
    pool = example.start_pool(TURNO_MAX_CHILDREN="1", TURNO_CRASH_AT="intended:self:1")
    assert wait_until(lambda: example.rows("SELECT 1 FROM external_effects WHERE caller_gone") != [], within=30)
    pool.kill()
    pool.communicate()
    authority.moods = ("grant",)
    example.time_passes()
    example.sweep()
    example.start_pool(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
    assert list(authority.grants.values()) == [1]
