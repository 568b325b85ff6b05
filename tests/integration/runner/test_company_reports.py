"""A job that reads all branches of its company, over a session that the database confines to reading them."""

from collections.abc import Iterator

import pytest
from psycopg import sql
from psycopg.errors import ProgramLimitExceeded

from tests.installation import ExampleInstallation
from tests.reporting_handlers import Consolidated, Curious
from turno.servers.wait import wait_until
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.provisioning.provision import add_company, add_tenant, read_company
from turno.tenancy.provisioning.removal import remove_tenant
from turno.worker.claim_logins import with_company


@pytest.fixture(autouse=True)
def reports(world: ExampleInstallation) -> None:
    world.registry = "tests.reporting_handlers:REGISTRY"


@pytest.fixture
def rival(world: ExampleInstallation) -> Iterator[Tenant]:
    """A branch of another company."""
    add_company(world.admin, world.logins, "rival", "Rival")
    yield add_tenant(world.admin, world.logins, "rival0001", "rival")
    world.admin.execute("RESET search_path")
    remove_tenant(world.admin, world.logins, "rival0001")


def attacks(world: ExampleInstallation, rival: Tenant) -> dict[str, str]:
    one, other = (sql.Identifier(tenant.schema) for tenant in (world.one, world.other))
    statements = {
        "another company's orders": sql.SQL("SELECT FROM {}.orders").format(sql.Identifier(rival.schema)),
        "the jobs": sql.SQL("SELECT FROM {}.background_jobs").format(one),
        "who the tenants are": sql.SQL("SELECT FROM turno.tenants"),
        "delete": sql.SQL("DELETE FROM {}.orders").format(one),
        "update of a sister": sql.SQL("UPDATE {}.orders SET id = id").format(other),
        "enqueue": sql.SQL("SELECT {}.jobs_enqueue(NULL, '[]')").format(other),
        "the handler's role": sql.SQL("SET ROLE {}").format(sql.Identifier(world.one.handler_role)),
        "the owner's role": sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(world.one.owner_role)),
        "a table": sql.SQL("CREATE TABLE {}.mine (a int)").format(one),
        "a temporary table": sql.SQL("CREATE TEMP TABLE mine (a int)"),
    }
    return {name: statement.as_string(world.admin) for name, statement in statements.items()}


def test_report_reads_its_company_and_nothing_else(world: ExampleInstallation, rival: Tenant) -> None:
    tried = attacks(world, rival)
    job_id = world.enqueue({"attacks": tried}, handler=Consolidated)
    log = world.work(job_id)
    job = world.job(job_id)
    assert job["status"] == "completed", log
    found = job["result"]
    assert found["orders"] == {slug: count(world, tenant) for slug, tenant in world.tenants.items()}
    assert (found["own"], found["isolation"], found["read only"]) == (count(world, world.one), "repeatable read", "on")
    assert found["attacks"] == dict.fromkeys(tried, "InsufficientPrivilege")


def count(world: ExampleInstallation, tenant: Tenant) -> int:
    (row,) = world.rows("SELECT count(*) AS orders FROM orders", tenant=tenant)
    return int(row["orders"])


def test_the_session_ends_with_the_attempt(world: ExampleInstallation) -> None:
    job = world.attempt(world.enqueue({}, handler=Consolidated))
    assert job["status"] == "completed", job
    role = read_company(world.admin, "northwind").report_role
    assert world.rows("SELECT FROM pg_stat_activity WHERE usename = %s", role) == []


def test_undeclared_report_gets_no_login(world: ExampleInstallation) -> None:
    job = world.attempt(world.enqueue({}, handler=Curious))
    assert job["status"] == "failed"
    assert job["error"]["class"] == "HandlerMisuse"


def test_report_without_its_login_waits_alone(world: ExampleInstallation) -> None:
    world.backend = "pool"
    granted = "EXECUTE ON FUNCTION turno.company_of(integer)"
    engine = world.logins.engine
    world.admin.execute(sql.SQL(f"REVOKE {granted} FROM {{}}").format(sql.Identifier(engine)))
    try:
        report, other = world.enqueue({}, handler=Consolidated), world.enqueue({}, handler=Curious)
        pool = world.start_pool(TURNO_MAX_CHILDREN="1")
        assert wait_until(lambda: world.job(other)["status"] == "failed", within=20)
        assert wait_until(lambda: (world.ticket(report) or {}).get("state") == "scheduled", within=20)
        job = world.job(report)
        assert (job["status"], job["attempt"], job["errors"], job["crashes"]) == ("pending", 0, 0, 0)
        assert pool.poll() is None
    finally:
        world.admin.execute(sql.SQL(f"GRANT {granted} TO {{}}").format(sql.Identifier(engine)))


def test_report_beyond_the_branch_limit_is_refused(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turno.worker.claim_logins.MOST_BRANCHES", 1)
    claim = world.here.claim(world.enqueue({}, handler=Consolidated))
    assert claim is not None
    with pytest.raises(ProgramLimitExceeded, match="northwind has 2 branches, and a report reads at most 1"):
        with_company(world.engine, claim)
