"""Each fault of the nemesis that a run cannot show alone: it happens, and it ends."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from nemesis import database_faults
from nemesis.commit_link import CommitLink
from nemesis.environment import Environment, open_environment
from nemesis.processes import Processes
from nemesis.schedule import DATABASE, HOLDS, LINK, WEIGHTS
from turno.tenancy.identity.function_names import short_name
from turno.tenancy.identity.tenant import Tenant
from turno.testing.wait import wait_until

pytestmark = pytest.mark.timeout(300)
WRITE = "UPDATE background_jobs SET priority = priority WHERE false"
PAUSED = "SELECT paused_at IS NOT NULL FROM turno.tenants WHERE id = %s"
ENGINES = r"SELECT FROM pg_stat_activity WHERE datname = current_database() AND usename LIKE '%\_engine'"


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    with open_environment() as opened:
        yield opened


@pytest.fixture
def tenant(environment: Environment) -> Tenant:
    return environment.tenants[1]


def written(environment: Environment, tenant: Tenant) -> bool:
    with environment.admin(tenant) as session:
        session.execute("SET lock_timeout = '50ms'")
        try:
            session.execute(WRITE)
        except psycopg.errors.LockNotAvailable:
            return False
        return True


def test_new_faults_are_scheduled() -> None:
    assert {*DATABASE, *LINK, "second maintenance"} < WEIGHTS.keys()
    assert {*DATABASE, "second maintenance"} < HOLDS.keys()


def test_locked_tenant_is_read_and_not_written(environment: Environment, tenant: Tenant) -> None:
    undo = database_faults.strike(environment, "lock tenant", 0.5)
    assert undo is not None
    assert not written(environment, tenant)
    assert written(environment, environment.tenants[0])
    with environment.admin(tenant) as session:
        session.execute("SET lock_timeout = '50ms'")
        assert session.execute("SELECT FROM background_jobs").rowcount == 0
    undo()
    assert wait_until(lambda: written(environment, tenant), within=20)


def test_lock_that_is_not_free_is_no_fault(environment: Environment, tenant: Tenant) -> None:
    with environment.admin(tenant) as session, session.transaction():
        session.execute(WRITE)
        assert database_faults.strike(environment, "lock tenant", 0.5) is None


def test_old_schema_lacks_a_function_until_it_is_given_back(environment: Environment, tenant: Tenant) -> None:
    def functions() -> set[str]:
        with environment.admin(tenant) as session:
            query = "SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
            return {short_name(name) for (name,) in session.execute(query)}

    before = functions()
    for name in database_faults.FUNCTIONS:
        undo = database_faults.take_function_away(environment, tenant, name)
        assert undo is not None
        assert name in before - functions()
        assert database_faults.take_function_away(environment, tenant, name) is None
        undo()
    assert functions() == before


def test_paused_tenant_is_resumed(environment: Environment, tenant: Tenant) -> None:
    def paused() -> object:
        with environment.admin() as session:
            return session.execute(PAUSED, (tenant.id,)).fetchall()[0][0]

    undo = database_faults.strike(environment, "pause tenant", 0.5)
    assert undo is not None
    assert paused() is True
    undo()
    assert paused() is False


def test_full_notification_queue_refuses_further_ones(environment: Environment) -> None:
    undo = database_faults.strike(environment, "fill notifications", 0.5)
    assert undo is not None
    with environment.admin() as session:
        usage = "SELECT pg_notification_queue_usage()"
        assert session.execute(usage).fetchall()[0][0] > 0.9
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            session.execute("SELECT pg_notify('nemesis_full', repeat('y', 7900))")
        undo()
        assert wait_until(lambda: session.execute(usage).fetchall()[0][0] < 0.1, within=20)


def test_lost_reply_hides_a_commit_from_its_client(environment: Environment, tenant: Tenant) -> None:
    link = CommitLink(environment.cluster.port)
    environment.link_port = link.port
    insert = "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, 'lost', 'exempt', 'lost')"
    with psycopg.connect(environment.linked_url(), autocommit=True) as session:
        session.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(tenant.schema)))
        with session.transaction():
            session.execute(insert, ("answered",))
        assert not link.lose_reply(within=0.01)
        with ThreadPoolExecutor(1) as thread:
            lost = thread.submit(link.lose_reply, within=30)
            assert wait_until(link.armed, within=10, every=0.01)
            with pytest.raises(psycopg.OperationalError), session.transaction():
                session.execute(insert, ("lost",))
            assert lost.result()
    with environment.admin(tenant) as other:
        rows = other.execute("DELETE FROM customers WHERE country = 'lost' RETURNING id").fetchall()
    assert {name for (name,) in rows} == {"answered", "lost"}


def test_second_maintenance_runs_beside_cron_until_it_is_killed(environment: Environment) -> None:
    def sessions() -> int:
        with environment.admin() as session:
            return session.execute(ENGINES).rowcount

    run_processes = Processes(environment, network=None)
    end = run_processes.start_second_cron()
    assert wait_until(lambda: sessions() > 0, within=60)
    end()
    assert wait_until(lambda: sessions() == 0, within=20)
    run_processes.close()
