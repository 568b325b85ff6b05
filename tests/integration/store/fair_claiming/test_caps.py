"""Caps and pauses, and many claimers at once."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from tests import attempt_steps, claiming
from tests.installation import ExampleInstallation
from tests.integration.store.fair_claiming.work import INVOICING, KNOWN, claim, finish, slugs, start, wait
from turno.jobs.job import Claim
from turno.runner.session import HandlerConnection
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import handler_session, service_session
from turno.testing.wait import wait_until


def test_cap_counts_running_jobs(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET cap = 3 WHERE slug = 'suc0001'")
    wait(example, 10)
    wait(example, 10, "suc0002")
    assert slugs(claim(example, 2)) == {"suc0001": 1, "suc0002": 1}
    assert slugs(claim(example, 20)) == {"suc0001": 2, "suc0002": 9}
    assert claim(example, 5) == []
    finish(example)
    assert slugs(claim(example, 20)) == {"suc0001": 3}


def test_type_cap_counts_all_tenants_and_spares_other_types(example: ExampleInstallation) -> None:
    example.rows("INSERT INTO turno.job_types (type, cap) VALUES ('work', 3)")
    for tenant in example.tenants:
        wait(example, 10, tenant)
        wait(example, 2, tenant, type="other", priority=2)
    taken = [claimed for _ in range(2) for claimed in claim(example, 20, types=[*KNOWN, ("other", 1)])]
    assert Counter(claimed.type for claimed in taken) == {"work": 3, "other": 4}
    waiting = example.rows("SELECT job_id FROM turno.tickets WHERE state = 'ready'")
    assert example.engine.claim_job(start(example), waiting[0]["job_id"], types=KNOWN) is None
    finish(example)
    assert example.engine.claim_job(start(example), waiting[0]["job_id"], types=KNOWN)
    assert len(claim(example, 20)) == 2


def test_a_named_claim_respects_the_tenant_s_cap(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET cap = 1 WHERE slug = 'suc0001'")
    wait(example, 2)
    first, second = (row["job_id"] for row in example.rows("SELECT job_id FROM turno.tickets"))
    assert example.engine.claim_job(start(example), first, types=KNOWN)
    assert example.engine.claim_job(start(example), second, types=KNOWN) is None


def test_paused_type_waits_for_every_claimer(example: ExampleInstallation) -> None:
    example.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('work', now())")
    wait(example, 1)
    wait(example, 1, type="other")
    (paused,) = example.rows("SELECT job_id FROM turno.tickets WHERE type = 'work'")
    assert [claimed.type for claimed in claim(example, 5, types=[*KNOWN, ("other", 1)])] == ["other"]
    assert example.engine.claim_job(start(example), paused["job_id"], types=KNOWN) is None
    example.rows("UPDATE turno.job_types SET paused_at = NULL")
    assert len(claim(example, 5)) == 1


CAPS = {
    "tenant": "UPDATE turno.tenants SET cap = 3",
    "type": "INSERT INTO turno.job_types (type, cap) VALUES ('work', 3)",
}


RUNNING = {
    "tenant": "SELECT count(*) FROM turno.tickets WHERE state = 'running' GROUP BY tenant_id ORDER BY 1 DESC",
    "type": "SELECT count(*) FROM turno.tickets WHERE state = 'running' GROUP BY type ORDER BY 1 DESC",
}


@pytest.mark.parametrize("what", CAPS)
def test_eight_claimers_never_exceed_a_cap_and_never_get_stuck(example: ExampleInstallation, what: str) -> None:
    example.rows(CAPS[what])
    for tenant in example.tenants:
        wait(example, 60, tenant)

    def work(number: int) -> int:
        most = 0
        with (
            Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine,
            closing(psycopg.connect(example.url, autocommit=True)) as eye,
        ):
            me = engine.start_worker(backend="exec", host="test", pid=1)
            mine = claiming.claimer(queues=["hot"], types=KNOWN, backend="exec")
            while waiting := eye.execute(
                "SELECT job_id FROM turno.tickets WHERE state = 'ready' ORDER BY random() LIMIT 1"
            ).fetchone():
                claims = (
                    [engine.claim_job(me, waiting[0], types=KNOWN)]
                    if number % 4 == 0
                    else [claimed for batch in mine.claim(engine, me, slots=2) for claimed in batch]
                )
                running = eye.execute(RUNNING[what]).fetchone()
                most = max(most, running[0] if running else 0)
                eye.execute(
                    "DELETE FROM turno.tickets WHERE job_id = ANY (%s)",
                    [[claimed.job_id for claimed in claims if claimed]],
                )
        return most

    with ThreadPoolExecutor(8) as pool:
        assert 1 <= max(pool.map(work, range(8), timeout=90)) <= 3
    assert example.rows("SELECT 1 FROM turno.tickets LIMIT 1") == []


@pytest.mark.parametrize("what", CAPS)
def test_concurrent_claim_counts_uncommitted_jobs(example: ExampleInstallation, what: str) -> None:
    example.rows(CAPS[what])
    wait(example, 9)
    with (
        Engine.on(service_session(example.logins, example.logins.engine, application="test")) as engine,
        example.engine.transaction(),
    ):
        assert len(claim(example, 2)) == 2
        me = engine.start_worker(backend="exec", host="test", pid=1)
        beside = claiming.claimer(queues=["hot"], types=KNOWN, backend="exec").claim(engine, me, slots=2)
    assert beside == []
    assert len(claim(example, 9)) == 1


def test_a_claim_of_all_slots_fills_a_cap_to_the_brim(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET cap = 3")
    wait(example, 10)
    assert len(claim(example, 8)) == 3


class Mill:
    """Workers that end some jobs and leave some, and a worker that rescues the remaining jobs."""

    def __init__(self, example: ExampleInstallation) -> None:
        self._example = example
        self.done = threading.Event()

    def work(self, number: int) -> None:
        seen = number
        with Engine.on(
            service_session(self._example.logins, self._example.logins.engine, application="test")
        ) as engine:
            mine = claiming.claimer(queues=["cold"], types=INVOICING, backend="exec")
            while not self.done.is_set():
                me = engine.start_worker(backend="exec", host="test", pid=1)
                for (claimed,) in mine.claim(engine, me, slots=3):
                    seen += 1
                    if seen % 5 == 0:
                        break
                    self._end(claimed)
                engine.stop_worker(me)

    def _end(self, claimed: Claim) -> None:
        session = handler_session(self._example.logins, claimed.login, application="test", kind=HandlerConnection)
        try:
            attempt_steps.start(session, claimed, "test")
            attempt_steps.begin(session)
            attempt_steps.complete(session, claimed, "{}")
            psycopg.Connection.commit(session)
        finally:
            psycopg.Connection.close(session)

    def rescue(self) -> None:
        with Engine.on(
            service_session(self._example.logins, self._example.logins.engine, application="test")
        ) as engine:
            while not self.done.is_set():
                for lost in engine.orphans():
                    self._rescue(engine, lost)

    def _rescue(self, engine: Engine, lost: Claim) -> None:
        engine.rescue(lost.login.schema, lost.job_id, lost.token, cause="left", retry_in=timedelta(0), counted=False)


def test_claims_ends_and_rescues_never_wait_in_a_circle(example: ExampleInstallation) -> None:
    example.rows("UPDATE turno.tenants SET cap = 4, weight = 2")
    example.rows("INSERT INTO turno.job_types (type, cap) VALUES ('batch_invoicing', 6)")
    for tenant in example.tenants.values():
        for _ in range(40):
            example.enqueue({"order_ids": [1]}, tenant=tenant)
    mill = Mill(example)
    with ThreadPoolExecutor(6) as pool:
        hands = [pool.submit(mill.work, number) for number in range(5)] + [pool.submit(mill.rescue)]
        try:
            assert wait_until(
                lambda: any(hand.done() for hand in hands) or not example.rows("SELECT 1 FROM turno.tickets LIMIT 1"),
                within=90,
            )
        finally:
            mill.done.set()
    for hand in hands:
        hand.result()
    for tenant in example.tenants.values():
        ended = example.rows("SELECT status, count(*) FROM background_jobs GROUP BY status", tenant=tenant)
        assert ended == [{"status": "completed", "count": 40}]
