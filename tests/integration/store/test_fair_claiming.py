"""Turns, weights, caps, pauses, and that no claim pays for what it cannot take."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests import attempt_steps, claiming
from tests.installation import ExampleInstallation
from turno.jobs.claim import Claim
from turno.runner.session import HandlerConnection
from turno.servers.wait import wait_until
from turno.store.engine import recovery, tickets
from turno.store.engine.claim_memory import ClaimMemory
from turno.store.engine.claims import Claimer
from turno.store.handler import attempts
from turno.store.operator import fairness
from turno.tenancy.identity.session import handler_session, service_session

KNOWN = [("work", 1)]
INVOICING = [("batch_invoicing", 1)]
WALKED = "SELECT pg_stat_get_xact_tuples_returned(%s::regclass)"


class Clock:
    """The workers' clock, which a test may put forward."""

    ahead = 0.0

    def __call__(self) -> float:
        return monotonic() + self.ahead


CLOCK = Clock()
CLAIMERS: dict[tuple[tuple[str, int], ...], Claimer] = {}


class Forgetful(ClaimMemory):
    """Remembers no walk."""

    def learn(self, learned: Mapping[str, Any], now: float) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def own_rules(world: ExampleInstallation) -> Iterator[None]:
    """No tenant but the two, no rule and nothing remembered from the test before."""
    CLAIMERS.clear()
    yield
    world.rows("TRUNCATE turno.job_types")
    world.rows("DELETE FROM turno.tenants WHERE starts_with(slug, 'more')")
    world.rows("UPDATE turno.tenants SET weight = 1, cap = NULL, paused_at = NULL")


def start(world: ExampleInstallation) -> UUID:
    return tickets.start_worker(world.engine, backend="exec", host="test", pid=1)


def wait(world: ExampleInstallation, count: int, tenant: str = "suc0001", **columns: Any) -> None:
    """Tickets as enqueueing leaves them, without their jobs; later ones are younger."""
    row = {"type": "work", "version": 1, "queue": "hot", "priority": 1, "backend": "exec", "age": 60} | columns
    world.rows(
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
        " SELECT turno.uuid_v7(), n.id, %s, %s, %s, %s,"
        "        clock_timestamp() - %s * interval '1 s' + i * interval '1 us', 'ready', %s"
        " FROM turno.tenants n, generate_series(1, %s) AS i WHERE n.slug = %s",
        *(row[name] for name in ("queue", "type", "version", "priority", "age", "backend")),
        count,
        tenant,
    )


def more_tenants(world: ExampleInstallation, count: int, start_at: int = 1) -> list[str]:
    slugs = [f"more{number:04d}" for number in range(start_at, start_at + count)]
    world.rows(
        "INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role, state)"
        " SELECT s, c.id, 't_' || substr(md5(s), 1, 12), 'o' || s, 'r' || s, 'a' || s, 'active'"
        " FROM turno.companies c, unnest(%s::text[]) AS s",
        slugs,
    )
    return slugs


def claimer(types: Sequence[tuple[str, int]] = KNOWN) -> Claimer:
    """Return the worker's that knows these types, the same throughout a test."""
    if tuple(types) not in CLAIMERS:
        CLAIMERS[tuple(types)] = Claimer(backend="exec", queues=["hot"], types=types, clock=CLOCK)
    return CLAIMERS[tuple(types)]


def claim(
    world: ExampleInstallation, slots: int = 1, *, types: Sequence[tuple[str, int]] = KNOWN, without: Sequence[str] = ()
) -> list[Claim]:
    batches = claimer(types).claim(world.engine, start(world), slots=slots, without=without)
    return [one for batch in batches for one in batch]


def finish(world: ExampleInstallation) -> None:
    """End what runs, as completion does to tickets."""
    world.rows("DELETE FROM turno.tickets WHERE state = 'running'")


def slugs(claims: list[Claim]) -> Counter[str]:
    return Counter(held.login.slug for held in claims)


# Turns --------------------------------------------------------------------------------------------


def test_a_weight_is_turns_per_lap(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(world, 50)
    wait(world, 50, "suc0002")
    assert slugs(claim(world, 40)) == {"suc0001": 10, "suc0002": 30}


def test_a_tenant_that_is_left_out_has_no_turn(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(world, 50, priority=0)
    wait(world, 50, "suc0002")
    assert slugs(claim(world, 40, without=("suc0001",))) == {"suc0002": 40}
    assert claim(world, 1, without=("suc0001", "suc0002")) == []
    assert 9 <= slugs(claim(world, 13))["suc0002"] <= 10


def test_a_cap_holds_for_whom_is_not_left_out(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET cap = 2 WHERE slug = 'suc0002'")
    wait(world, 5)
    wait(world, 5, "suc0002")
    assert slugs(claim(world, 4, without=("suc0001",))) == {"suc0002": 2}


@pytest.mark.parametrize("slots", [1, 3])
def test_turns_go_on_from_claim_to_claim(world: ExampleInstallation, slots: int) -> None:
    world.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(world, 50)
    wait(world, 50, "suc0002")
    taken = [held for _ in range(24 // slots) for held in claim(world, slots)]
    # The first claim of a session may begin within a lap.
    assert 5 <= slugs(taken)["suc0001"] <= 7


def test_a_gap_in_the_tenants_numbers_favours_nobody(world: ExampleInstallation) -> None:
    *_, last = more_tenants(world, 200)
    for tenant in ("suc0001", "suc0002", last):
        wait(world, 30, tenant)
    taken = [held for _ in range(30) for held in claim(world)]
    assert slugs(taken) == {"suc0001": 10, "suc0002": 10, last: 10}


def test_two_types_and_two_queues_of_a_tenant_are_one_turn(world: ExampleInstallation) -> None:
    for kind in ("a", "b"):
        wait(world, 20, type=kind)
        wait(world, 20, type=kind, queue="cold")
    wait(world, 40, "suc0002", type="a")
    taken = claiming.claim(
        world.engine, start(world), queues=["hot", "cold"], types=[("a", 1), ("b", 1)], backend="exec", slots=20
    )
    assert slugs(taken) == {"suc0001": 10, "suc0002": 10}


def test_one_tenant_s_urgent_jobs_delay_nobody_else(world: ExampleInstallation) -> None:
    wait(world, 300, priority=0)
    wait(world, 10, "suc0002", priority=2, age=0)
    assert slugs(claim(world, 20))["suc0002"] == 10


def test_a_stream_of_urgent_jobs_starves_no_other_band_and_no_other_type(world: ExampleInstallation) -> None:
    wait(world, 1, priority=2, age=3600)
    wait(world, 1, priority=1, age=3500, type="b")
    wait(world, 400, priority=0)
    order = [held for _ in range(100) for held in claim(world, 2, types=[*KNOWN, ("b", 1)])]
    priorities = {row["job_id"]: row["priority"] for row in world.rows("SELECT job_id, priority FROM turno.tickets")}
    taken = Counter(priorities[held.job_id] for held in order)
    assert taken == {0: 198, 1: 1, 2: 1}


def test_the_best_band_nevertheless_comes_first(world: ExampleInstallation) -> None:
    wait(world, 200, priority=2, age=3600)
    wait(world, 200, priority=0)
    order = [held for _ in range(200) for held in claim(world)]
    urgent = world.rows("SELECT count(*) FROM turno.tickets WHERE priority = 0 AND state = 'running'")
    assert 150 <= urgent[0]["count"] < len(order)


# Caps and pauses ----------------------------------------------------------------------------------


def test_a_cap_counts_what_runs_already(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET cap = 3 WHERE slug = 'suc0001'")
    wait(world, 10)
    wait(world, 10, "suc0002")
    assert slugs(claim(world, 2)) == {"suc0001": 1, "suc0002": 1}
    assert slugs(claim(world, 20)) == {"suc0001": 2, "suc0002": 9}
    assert claim(world, 5) == []
    finish(world)
    assert slugs(claim(world, 20)) == {"suc0001": 3}


def test_a_type_s_cap_counts_over_all_tenants_and_lets_other_types_by(world: ExampleInstallation) -> None:
    world.rows("INSERT INTO turno.job_types (type, cap) VALUES ('work', 3)")
    for tenant in world.tenants:
        wait(world, 10, tenant)
        wait(world, 2, tenant, type="other", priority=2)
    taken = [held for _ in range(2) for held in claim(world, 20, types=[*KNOWN, ("other", 1)])]
    assert Counter(held.type for held in taken) == {"work": 3, "other": 4}
    waiting = world.rows("SELECT job_id FROM turno.tickets WHERE state = 'ready'")
    assert tickets.claim_job(world.engine, start(world), waiting[0]["job_id"], types=KNOWN) is None
    finish(world)
    assert tickets.claim_job(world.engine, start(world), waiting[0]["job_id"], types=KNOWN)
    assert len(claim(world, 20)) == 2


def test_a_named_claim_respects_the_tenant_s_cap(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET cap = 1 WHERE slug = 'suc0001'")
    wait(world, 2)
    first, second = (row["job_id"] for row in world.rows("SELECT job_id FROM turno.tickets"))
    assert tickets.claim_job(world.engine, start(world), first, types=KNOWN)
    assert tickets.claim_job(world.engine, start(world), second, types=KNOWN) is None


def test_a_paused_type_waits_whoever_asks(world: ExampleInstallation) -> None:
    world.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('work', now())")
    wait(world, 1)
    wait(world, 1, type="other")
    (paused,) = world.rows("SELECT job_id FROM turno.tickets WHERE type = 'work'")
    assert [held.type for held in claim(world, 5, types=[*KNOWN, ("other", 1)])] == ["other"]
    assert tickets.claim_job(world.engine, start(world), paused["job_id"], types=KNOWN) is None
    world.rows("UPDATE turno.job_types SET paused_at = NULL")
    assert len(claim(world, 5)) == 1


CAPS = {
    "tenant": "UPDATE turno.tenants SET cap = 3",
    "type": "INSERT INTO turno.job_types (type, cap) VALUES ('work', 3)",
}
RUNNING = {
    "tenant": "SELECT count(*) FROM turno.tickets WHERE state = 'running' GROUP BY tenant_id ORDER BY 1 DESC",
    "type": "SELECT count(*) FROM turno.tickets WHERE state = 'running' GROUP BY type ORDER BY 1 DESC",
}


@pytest.mark.parametrize("what", CAPS)
def test_eight_claimers_never_exceed_a_cap_and_never_get_stuck(world: ExampleInstallation, what: str) -> None:
    world.rows(CAPS[what])
    for tenant in world.tenants:
        wait(world, 60, tenant)

    def work(number: int) -> int:
        most = 0
        with (
            service_session(world.logins, world.logins.engine, application="test") as engine,
            closing(psycopg.connect(world.url, autocommit=True)) as eye,
        ):
            me = tickets.start_worker(engine, backend="exec", host="test", pid=1)
            mine = claiming.claimer(queues=["hot"], types=KNOWN, backend="exec")
            while waiting := eye.execute(
                "SELECT job_id FROM turno.tickets WHERE state = 'ready' ORDER BY random() LIMIT 1"
            ).fetchone():
                held = (
                    [tickets.claim_job(engine, me, waiting[0], types=KNOWN)]
                    if number % 4 == 0
                    else [one for batch in mine.claim(engine, me, slots=2) for one in batch]
                )
                running = eye.execute(RUNNING[what]).fetchone()
                most = max(most, running[0] if running else 0)
                eye.execute("DELETE FROM turno.tickets WHERE job_id = ANY (%s)", [[one.job_id for one in held if one]])
        return most

    with ThreadPoolExecutor(8) as pool:
        assert 1 <= max(pool.map(work, range(8), timeout=90)) <= 3
    assert world.rows("SELECT 1 FROM turno.tickets LIMIT 1") == []


def test_a_claim_of_all_slots_fills_a_cap_to_the_brim(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET cap = 3")
    wait(world, 10)
    assert len(claim(world, 8)) == 3


# What nobody here can run -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "foreign",
    [
        {"type": "unknown"},
        {"version": 2},
        {"version": 0},
        {"backend": "pool"},
        {"queue": "cold"},
        {"type": "unknown", "priority": 0},
    ],
    ids=str,
)
def test_what_cannot_be_run_here_is_not_walked_over(world: ExampleInstallation, foreign: dict[str, Any]) -> None:
    wait(world, 200)
    before = walked(world, 10)
    wait(world, 20_000, age=3600, **foreign)
    claim(world)  # where it lies in front, it is walked over once
    assert walked(world, 10) <= before + 15
    assert {(held.type, held.version) for held in claim(world, 500)} == {("work", 1)}
    assert world.rows("SELECT count(*) FROM turno.tickets WHERE state = 'ready'") == [{"count": 20_000}]


def test_old_and_new_code_run_side_by_side(world: ExampleInstallation) -> None:
    wait(world, 3)
    wait(world, 3, version=2)
    assert {held.version for held in claim(world, 10, types=[("work", 2)])} == {2}
    (old, *_) = world.rows("SELECT job_id FROM turno.tickets WHERE state = 'ready'")
    assert tickets.claim_job(world.engine, start(world), old["job_id"], types=[("work", 2)]) is None
    assert {held.version for held in claim(world, 10, types=[("work", 1), ("work", 2)])} == {1}


# A transaction left open --------------------------------------------------------------------------


@contextmanager
def left_open(world: ExampleInstallation) -> Iterator[None]:
    """A transaction somewhere that began before, and from which vacuum must keep everything."""
    with closing(psycopg.connect(world.url)) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT pg_current_xact_id()")
        yield


def run_through(world: ExampleInstallation, count: int, tenant: str) -> None:
    wait(world, count, tenant)
    world.rows(
        "UPDATE turno.tickets SET state = 'running', worker_id = gen_random_uuid(), token = gen_random_uuid()"
        " WHERE state = 'ready'"
    )
    finish(world)


def entries(world: ExampleInstallation, index: str) -> int:
    (row,) = world.engine.execute(WALKED, [f"turno.{index}"]).fetchall()
    return int(row[0])


def walked(world: ExampleInstallation, claims: int) -> float:
    """Index entries that a claim of one ticket reads, on average."""
    worker = start(world)
    with world.engine.transaction():
        before = entries(world, "tickets_by_tenant")
        for _ in range(claims):
            assert len(claimer().claim(world.engine, worker, slots=1)) == 1
        return (entries(world, "tickets_by_tenant") - before) / claims


@contextmanager
def forgetful() -> Iterator[None]:
    """Claims that remember no walk."""
    claimer()._memory = Forgetful()
    yield
    CLAIMERS.clear()


@pytest.mark.parametrize("tenants", [1, 10])
def test_a_transaction_left_open_does_not_make_claims_dearer(world: ExampleInstallation, tenants: int) -> None:
    finished = 6000
    names = ["suc0001", *more_tenants(world, tenants - 1)]
    with left_open(world):
        for tenant in names:
            run_through(world, finished // tenants, tenant)
        for tenant in names:
            wait(world, 400 // tenants, tenant, age=0)
        remembered = walked(world, 200)
        with forgetful():
            forgotten = walked(world, 100)
    assert remembered < forgotten / 4
    assert forgotten > finished / tenants


def test_tenants_with_nothing_waiting_are_hopped_over_as_well(world: ExampleInstallation) -> None:
    names = more_tenants(world, 60)
    with left_open(world):
        for tenant in names:
            run_through(world, 100, tenant)
        wait(world, 200, age=0)
        remembered = walked(world, 150)
        with forgetful():
            forgotten = walked(world, 50)
    assert remembered < forgotten / 4
    assert forgotten > 5000


@pytest.mark.parametrize("what", ["after a gap", "after a pause"])
def test_a_visit_after_a_gap_or_a_pause_costs_no_more(world: ExampleInstallation, what: str) -> None:
    names = more_tenants(world, 60)[::20]
    with left_open(world):
        for tenant in names:
            run_through(world, 2000, tenant)
        for tenant in names:
            wait(world, 100, tenant, age=0)
        assert walked(world, 6) > 300  # each was walked through once, and marked
        if what == "after a pause":
            CLOCK.ahead += 10
        assert walked(world, 12) < 300


def test_a_late_commit_is_claimed_soon_whatever_is_marked(world: ExampleInstallation) -> None:
    with left_open(world):
        run_through(world, 2000, "suc0001")
        wait(world, 50, age=0)
        claim(world)
        wait(world, 1, age=30)
        (late,) = world.rows("SELECT job_id FROM turno.tickets WHERE state = 'ready' ORDER BY run_at LIMIT 1")
        assert late["job_id"] not in {held.job_id for held in claim(world, 3)}
        CLOCK.ahead += 30
        assert late["job_id"] in {held.job_id for held in claim(world, 3)}


def test_what_was_paused_is_found_again_though_others_were_marked_behind_it(world: ExampleInstallation) -> None:
    types = [*KNOWN, ("other", 1)]
    world.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('other', now())")
    wait(world, 2000, type="other", age=3600)
    wait(world, 3)
    assert [held.type for held in claim(world, types=types)] == ["work"]
    world.rows("UPDATE turno.job_types SET paused_at = NULL")
    assert [held.type for held in claim(world, types=types)] == ["other"]


def test_promoting_due_tickets_does_not_grow_dearer_either(world: ExampleInstallation) -> None:
    wait(world, 5000)
    world.rows("UPDATE turno.tickets SET state = 'scheduled', run_at = date_trunc('day', now())")
    with left_open(world), world.engine.transaction():
        before = entries(world, "tickets_due")
        for _ in range(30):
            claim(world)
        assert entries(world, "tickets_due") - before < 5000 * 5  # walked anew each time it would be 25 * 5000 / 2
    assert world.rows("SELECT FROM turno.tickets WHERE state = 'scheduled'") == []


def test_a_new_tenant_s_job_is_claimed_at_once_whatever_is_remembered(world: ExampleInstallation) -> None:
    names = more_tenants(world, 20)
    with left_open(world):
        for tenant in names:
            run_through(world, 200, tenant)
        assert claim(world, 5) == []
        (new,) = more_tenants(world, 1, start_at=100)
        wait(world, 1, new)
        assert slugs(claim(world, 5)) == {new: 1}
        assert remembers()


def test_an_idle_tenant_s_job_is_claimed_soon_whatever_is_remembered(world: ExampleInstallation) -> None:
    names = more_tenants(world, 20)
    with left_open(world):
        for tenant in names:
            run_through(world, 200, tenant)
        assert claim(world, 5) == []
        assert remembers()
        wait(world, 1, names[10], age=0)
        assert wait_until(lambda: slugs(claim(world, 5)) == {names[10]: 1}, within=20)


def test_nothing_is_remembered_where_nothing_is_in_the_way(world: ExampleInstallation) -> None:
    for tenant in world.tenants:
        wait(world, 500, tenant)
    for _ in range(20):
        claim(world, 5)
        finish(world)
    assert not remembers()


def remembers() -> bool:
    """Whether the worker knows of anything to walk around."""
    return bool(claimer()._memory.known(1, CLOCK()))


# All at once --------------------------------------------------------------------------------------


class Mill:
    """Workers that end some jobs and leave others, and one that rescues what was left."""

    def __init__(self, world: ExampleInstallation) -> None:
        self._world = world
        self.done = threading.Event()

    def work(self, number: int) -> None:
        seen = number
        with service_session(self._world.logins, self._world.logins.engine, application="test") as engine:
            mine = claiming.claimer(queues=["cold"], types=INVOICING, backend="exec")
            while not self.done.is_set():
                me = tickets.start_worker(engine, backend="exec", host="test", pid=1)
                for (held,) in mine.claim(engine, me, slots=3):
                    seen += 1
                    if seen % 5 == 0:
                        break
                    self._end(held)
                tickets.stop_worker(engine, me)

    def _end(self, held: Claim) -> None:
        session = handler_session(self._world.logins, held.login, application="test", kind=HandlerConnection)
        try:
            attempt_steps.start(session, held, "test")
            attempts.begin(session, held)
            attempt_steps.complete(session, held, "{}")
            psycopg.Connection.commit(session)
        finally:
            psycopg.Connection.close(session)

    def rescue(self) -> None:
        with service_session(self._world.logins, self._world.logins.engine, application="test") as engine:
            while not self.done.is_set():
                for lost in tickets.orphans(engine):
                    self._rescue(engine, lost)

    def _rescue(self, engine: psycopg.Connection[Any], lost: tickets.Orphan) -> None:
        recovery.rescue(
            engine, lost.schema, lost.job_id, lost.token, cause="left", retry_in=timedelta(0), counted=False
        )


def test_claims_ends_and_rescues_never_wait_in_a_circle(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET cap = 4, weight = 2")
    world.rows("INSERT INTO turno.job_types (type, cap) VALUES ('batch_invoicing', 6)")
    for tenant in world.tenants.values():
        for _ in range(40):
            world.enqueue({"order_ids": [1]}, tenant=tenant)
    mill = Mill(world)
    with ThreadPoolExecutor(6) as pool:
        hands = [pool.submit(mill.work, number) for number in range(5)] + [pool.submit(mill.rescue)]
        try:
            assert wait_until(
                lambda: any(hand.done() for hand in hands) or not world.rows("SELECT 1 FROM turno.tickets LIMIT 1"),
                within=90,
            )
        finally:
            mill.done.set()
    for hand in hands:
        hand.result()
    for tenant in world.tenants.values():
        ended = world.rows("SELECT status, count(*) FROM background_jobs GROUP BY status", tenant=tenant)
        assert ended == [{"status": "completed", "count": 40}]


# What operators see -------------------------------------------------------------------------------


def test_operators_see_each_tenant_s_wait_and_share(world: ExampleInstallation) -> None:
    world.rows("UPDATE turno.tenants SET weight = 3 WHERE slug = 'suc0002'")
    wait(world, 4)
    world.rows(
        "INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)"
        " SELECT id, 'work', 'completed', 10 * i, 100 FROM turno.tenants, generate_series(1, 10) AS i"
        " WHERE slug = 'suc0001' OR slug = 'suc0002' AND i = 1"
    )
    with service_session(world.logins, world.logins.operator, application="test") as operator:
        rows = operator.execute(
            "SELECT slug, waiting, running, oldest_wait > '59 s', ended, wait_p50_ms, wait_p95_ms,"
            " round(share, 2), round(fair_share, 2) FROM fairness ORDER BY slug"
        ).fetchall()
        seen = fairness.shares(operator)
    assert [(row["slug"], row["wait_p95_ms"], row["share"], row["fair_share"]) for row in seen] == [
        ("suc0001", 100, 0.909, 0.25),
        ("suc0002", 10, 0.091, 0.75),
    ]
    assert [tuple(map(str, row)) for row in rows] == [
        ("suc0001", "4", "0", "True", "10", "50", "100", "0.91", "0.25"),
        ("suc0002", "0", "0", "None", "1", "10", "10", "0.09", "0.75"),
    ]
