"""A job that reads all branches of its company, over a session that the database confines to reading them."""

from collections.abc import Iterator

import pytest
from psycopg import sql
from psycopg.errors import ProgramLimitExceeded

from tests.installation import ExampleInstallation
from tests.reporting_handlers import Consolidated, Curious
from turno.tenancy.identity.function_names import with_own_names
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.provisioning.provision import add_company, add_tenant, read_company
from turno.tenancy.provisioning.removal import remove_tenant
from turno.testing.wait import wait_until
from turno.worker.claim_logins import with_company


@pytest.fixture(autouse=True)
def reports(example: ExampleInstallation) -> None:
    example.registry = "tests.reporting_handlers:REGISTRY"


@pytest.fixture
def rival(example: ExampleInstallation) -> Iterator[Tenant]:
    """A branch of another company."""
    add_company(example.admin, example.logins, "rival", "Rival")
    yield add_tenant(example.admin, example.logins, "rival0001", "rival")
    example.admin.execute("RESET search_path")
    remove_tenant(example.admin, example.logins, "rival0001")


def attacks(example: ExampleInstallation, rival: Tenant) -> dict[str, str]:
    own, other = (sql.Identifier(tenant.schema) for tenant in (example.one, example.other))
    statements = {
        "another company's orders": sql.SQL("SELECT FROM {}.orders").format(sql.Identifier(rival.schema)),
        "the jobs": sql.SQL("SELECT FROM {}.background_jobs").format(own),
        "who the tenants are": sql.SQL("SELECT FROM turno.tenants"),
        "delete": sql.SQL("DELETE FROM {}.orders").format(own),
        "update of a sister": sql.SQL("UPDATE {}.orders SET id = id").format(other),
        "enqueue": sql.SQL(with_own_names("SELECT {}.jobs_enqueue(NULL, '[]')", example.other.schema)).format(other),
        "the handler's role": sql.SQL("SET ROLE {}").format(sql.Identifier(example.one.handler_role)),
        "the owner's role": sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(example.one.owner_role)),
        "a table": sql.SQL("CREATE TABLE {}.mine (a int)").format(own),
        "a temporary table": sql.SQL("CREATE TEMP TABLE mine (a int)"),
    }
    return {name: statement.as_string(example.admin) for name, statement in statements.items()}


def test_report_reads_its_company_and_nothing_else(example: ExampleInstallation, rival: Tenant) -> None:
    tried = attacks(example, rival)
    job_id = example.enqueue({"attacks": tried}, handler=Consolidated)
    log = example.work(job_id)
    job = example.job(job_id)
    assert job["status"] == "completed", log
    result = job["result"]
    assert result["orders"] == {slug: count(example, tenant) for slug, tenant in example.tenants.items()}
    assert (result["own"], result["isolation"], result["read only"]) == (
        count(example, example.one),
        "repeatable read",
        "on",
    )
    assert result["attacks"] == dict.fromkeys(tried, "InsufficientPrivilege")


def count(example: ExampleInstallation, tenant: Tenant) -> int:
    (row,) = example.rows("SELECT count(*) AS orders FROM orders", tenant=tenant)
    return int(row["orders"])


def test_the_session_ends_with_the_attempt(example: ExampleInstallation) -> None:
    job = example.attempt(example.enqueue({}, handler=Consolidated))
    assert job["status"] == "completed", job
    role = read_company(example.admin, "northwind").report_role
    assert example.rows("SELECT FROM pg_stat_activity WHERE usename = %s", role) == []


def test_undeclared_report_gets_no_login(example: ExampleInstallation) -> None:
    job = example.attempt(example.enqueue({}, handler=Curious))
    assert job["status"] == "failed"
    assert job["error"]["class"] == "HandlerMisuse"


def test_report_without_its_login_waits_alone(example: ExampleInstallation) -> None:
    example.backend = "pool"
    granted = "EXECUTE ON FUNCTION turno.company_of(integer)"
    engine = example.logins.engine
    example.admin.execute(sql.SQL(f"REVOKE {granted} FROM {{}}").format(sql.Identifier(engine)))
    try:
        report, other = example.enqueue({}, handler=Consolidated), example.enqueue({}, handler=Curious)
        pool = example.start_pool(TURNO_MAX_CHILDREN="1")
        assert wait_until(lambda: example.job(other)["status"] == "failed", within=20)
        assert wait_until(lambda: (example.ticket(report) or {}).get("state") == "scheduled", within=20)
        job = example.job(report)
        assert (job["status"], job["attempt"], job["errors"], job["crashes"]) == ("pending", 0, 0, 0)
        assert pool.poll() is None
    finally:
        example.admin.execute(sql.SQL(f"GRANT {granted} TO {{}}").format(sql.Identifier(engine)))


def test_report_beyond_the_branch_limit_is_refused(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turno.worker.claim_logins.MOST_BRANCHES", 1)
    claim = example.in_process.claim(example.enqueue({}, handler=Consolidated))
    assert claim is not None
    with pytest.raises(ProgramLimitExceeded, match="northwind has 2 branches, and a report reads at most 1"):
        with_company(example.engine, claim)
