"""A report works a branch's job under its company's login: started, rescued, and never ended by the branch."""

from uuid import UUID, uuid4

import psycopg
import pytest

from tenants.provision import read_company
from tests.world import World


@pytest.fixture
def quiet(module_world: World) -> World:
    """The module's world, with nothing left of the test before."""
    module_world.forget()
    return module_world


def claimed_job(world: World) -> tuple[UUID, UUID]:
    job_id, token = world.enqueue({"order_ids": [1], "point_of_sale": 1}), uuid4()
    world.admin.execute(
        "UPDATE turno.tickets SET state = 'running', worker_id = gen_random_uuid(), token = %s, attempt = 1"
        " WHERE job_id = %s",
        [token, job_id],
    )
    return job_id, token


def report_conninfo(world: World) -> str:
    report = read_company(world.admin, "northwind").report_role
    return world.logins.conninfo(
        report, search_path=f"{world.one.schema},pg_temp", application="test-report", timeouts={}
    )


def test_a_report_starts_and_completes_a_job(quiet: World) -> None:
    job_id, token = claimed_job(quiet)
    with psycopg.connect(report_conninfo(quiet)) as session:
        session.execute("SELECT job_start(%s, %s, 'worker')", [job_id, token])
        session.commit()
        session.execute("SELECT set_config('turno.attempt', %s, true)", [str(token)])
        session.execute("SELECT job_complete(%s, %s, '{}')", [job_id, token])
    assert quiet.job(job_id)["status"] == "completed"


def test_a_report_that_died_is_rescued_though_its_session_is_out_of_reach(quiet: World) -> None:
    job_id, token = claimed_job(quiet)
    with psycopg.connect(report_conninfo(quiet)) as session:
        session.execute("SELECT job_start(%s, %s, 'worker')", [job_id, token])
        session.commit()
        schema = quiet.one.schema
        row = quiet.engine.execute(
            f"SELECT {schema}.job_rescue(%s, %s, 'lost', interval '1 s', true)".encode(), [job_id, token]
        ).fetchone()
        assert row == ("pending",)
        assert session.execute("SELECT 1").fetchone() == (1,)
