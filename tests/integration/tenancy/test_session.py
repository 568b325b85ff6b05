"""One call as a tenant's API role: committed when it returns, undone when it raises, nothing left on the session."""

from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg_pool import PoolTimeout

from tests.installation import ExampleInstallation
from tests.pgbouncer import pooled
from turno.settings import Settings
from turno.tenancy.identity.roles import set_password
from turno.tenancy.identity.session import StartupOptionsLost, service_session
from turno.wiring.web import web_pool

SESSION_STATE = "SELECT current_user, current_setting('search_path')"


def test_call_commits_on_return_and_resets_the_role(example: ExampleInstallation) -> None:
    before = example.web.execute(SESSION_STATE).fetchone()
    job_id = example.enqueue({"order_ids": [1]})
    assert example.job(job_id)["status"] == "pending"
    assert example.web.execute(SESSION_STATE).fetchone() == before


def test_an_error_undoes_the_call_and_leaves_the_session_usable(example: ExampleInstallation) -> None:
    before = example.web.execute(SESSION_STATE).fetchone()
    with pytest.raises(psycopg.errors.NotNullViolation):
        example.enqueue({"order_ids": [1]}, user_id=None)
    assert example.web.execute(SESSION_STATE).fetchone() == before
    assert example.rows("SELECT 1 FROM background_jobs") == []
    example.enqueue({"order_ids": [1]})


def test_refusal_at_commit_is_raised(example: ExampleInstallation) -> None:
    example.rows(
        """
        CREATE FUNCTION refusal() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'refused at the end'; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON background_jobs DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refusal()
        """
    )
    try:
        with pytest.raises(psycopg.errors.RaiseException, match="refused at the end"):
            example.enqueue({"order_ids": [1]})
        assert example.rows("SELECT 1 FROM background_jobs") == []
    finally:
        example.rows("DROP TRIGGER refuse ON background_jobs; DROP FUNCTION refusal")
    example.enqueue({"order_ids": [1]})


def test_each_call_is_its_own_tenant_s_however_they_alternate(example: ExampleInstallation) -> None:
    jobs = [(tenant, example.enqueue({"order_ids": [1]}, tenant=tenant)) for tenant in [*example.tenants.values()] * 8]
    for tenant, job_id in jobs:
        assert example.job(job_id, tenant=tenant)["id"] == job_id


def test_pooler_that_drops_startup_options_is_refused(
    example: ExampleInstallation, pgbouncer: Path, tmp_path: Path
) -> None:
    role = example.logins.web
    example.admin.execute(sql.SQL("ALTER ROLE {} PASSWORD 'x'").format(sql.Identifier(role)))
    try:
        dropping = "ignore_startup_parameters = options\n"
        with pooled(pgbouncer, example.url, role, tmp_path, more=dropping) as conninfo:
            logins = type(example.logins)(conninfo, example.logins.master_key, example.logins.installation)
            with pytest.raises(StartupOptionsLost, match="a pooler drops them"):
                service_session(logins, role, application="test")
            there = {"DATABASE_URL": conninfo, "TURNO_INSTALLATION_ID": logins.installation}
            settings = Settings.read(example.environment | there)
            with closing(web_pool(settings)) as pool, pytest.raises(PoolTimeout):
                pool.getconn()
    finally:
        set_password(example.admin, example.logins, role, 0)
