"""One tenant's locks, one tenant's end, one error of a worker: jobs of all other tenants run on, and none is blamed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Odd
from turno.servers.wait import wait_until
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.provisioning.provision import add_tenant
from turno.tenancy.provisioning.removal import remove_tenant
from turno.testing.processes import children


@pytest.fixture(autouse=True)
def pool_backend(world: ExampleInstallation) -> None:
    world.odd, world.backend = True, "pool"


@pytest.fixture
def company(world: ExampleInstallation, tmp_path: Path) -> Path:
    """Where jobs that wait for each other meet; see `wait_for_company`."""
    world.extra["MEET"] = str(tmp_path)
    return tmp_path


def completed(world: ExampleInstallation, job_id: UUID, tenant: Tenant) -> bool:
    return bool(world.job(job_id, tenant=tenant)["status"] == "completed")


@contextmanager
def locked(world: ExampleInstallation, table: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Hold the first tenant's table as a migration does that builds an index."""
    with psycopg.connect(world.url) as session:
        name = sql.Identifier(world.one.schema, table)
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        yield session
        session.rollback()


def test_refused_rescue_of_a_tenant_delays_no_other(world: ExampleInstallation, company: Path) -> None:
    victim = world.enqueue({"how": "wait_for_company"}, handler=Odd)
    pool = world.start_pool(TURNO_MIN_CHILDREN="2", TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until((company / str(victim)).exists, within=20)
    running = [pid for pid in children(pool.pid) if str(victim).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
    said: list[str] = []
    with locked(world, "background_jobs"):
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        assert pool.stdout is not None
        for line in pool.stdout:
            said.append(line)
            if "job not taken back yet" in line:
                break
        others = [world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other) for _ in range(10)]
        assert wait_until(lambda: all(completed(world, job, world.other) for job in others), within=20), said
    assert wait_until(lambda: world.job(victim)["crashes"] == 1, within=10)
    assert pool.poll() is None


def test_unstartable_tenant_leaves_one_child_for_others(world: ExampleInstallation) -> None:
    pool = world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    waiting = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(5)]
    with locked(world, "background_jobs"):
        assert pool.stdout is not None
        assert any("attempt not started" in line for line in pool.stdout)
        others = [world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other) for _ in range(10)]
        assert wait_until(lambda: all(completed(world, job, world.other) for job in others), within=20)
    assert wait_until(lambda: all(completed(world, job, world.one) for job in waiting), within=20)
    assert {(job["errors"], job["crashes"]) for job in map(world.job, waiting)} == {(0, 0)}
    assert pool.poll() is None


@contextmanager
def locked_out(world: ExampleInstallation) -> Iterator[None]:
    """Let the server refuse the first tenant's login."""
    role = sql.Identifier(world.one.handler_role)
    world.admin.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
    try:
        yield
    finally:
        world.admin.execute(sql.SQL("ALTER ROLE {} LOGIN").format(role))


def test_refused_login_costs_few_children(world: ExampleInstallation) -> None:
    with locked_out(world):
        refused = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(20)]
        others = [world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other) for _ in range(40)]
        pool = world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="2", TURNO_LOG_LEVEL="ERROR")
        assert wait_until(lambda: all(completed(world, job, world.other) for job in others), within=20)
        unsettled = "SELECT 1 FROM turno.tickets WHERE state <> 'scheduled'"
        assert wait_until(lambda: world.rows(unsettled) == [], within=20)
        pool.send_signal(signal.SIGTERM)
        said, _ = pool.communicate(timeout=20)
    assert 1 <= said.count("is not permitted to log in") <= 4, said
    jobs = [world.job(job_id) for job_id in refused]
    assert {(job["status"], job["errors"], job["crashes"], job["attempt"]) for job in jobs} == {("pending", 0, 0, 0)}


def test_child_dead_before_each_start_ends_its_job(world: ExampleInstallation) -> None:
    world.backend = "exec"
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    world.work(job_id, crash_at="handed")
    job = world.job(job_id)
    assert (job["status"], job["crashes"], job["attempt"]) == ("failed", 3, 3)
    assert job["reason"].startswith("killed by SIGKILL")


@pytest.fixture
def brief_tenant(world: ExampleInstallation) -> Iterator[Tenant]:
    """A tenant that is removed while its job runs."""
    tenant = add_tenant(world.admin, world.logins, "suc0009", "northwind")
    yield tenant
    world.stop_workers()
    remove_tenant(world.admin, world.logins, "suc0009")


def test_removed_tenant_with_running_job_harms_no_worker(
    world: ExampleInstallation, company: Path, brief_tenant: Tenant
) -> None:
    theirs = world.enqueue({"how": "wait_for_company"}, handler=Odd, tenant=brief_tenant)
    ours = world.enqueue({"how": "wait_for_company"}, handler=Odd)
    pool = world.start_pool(TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: {str(theirs), str(ours)} <= {file.name for file in company.iterdir()}, within=20)
    world.admin.execute("RESET search_path")
    remove_tenant(world.admin, world.logins, "suc0009")
    (company / "go").touch()
    assert pool.stdout is not None
    assert any("its tenant is gone" in line for line in pool.stdout)
    assert wait_until(lambda: completed(world, ours, world.one), within=10)
    assert (world.job(ours)["attempt"], world.job(ours)["crashes"]) == (1, 0)
    assert pool.poll() is None


BROKEN = """
import sys
from pathlib import Path
import turno.wiring.workers
from turno.worker.liveness import Liveness
from turno.commands.main import main

class Broken(Liveness):
    def turn(self):
        if Path(sys.argv[1], "break").exists():
            raise RuntimeError("a fault of the program's")

turno.wiring.workers.liveness = lambda _settings: Broken()
main(["work"])
"""


def broken_pool(world: ExampleInstallation, company: Path) -> Popen[str]:
    environment = world.environment | {
        "TURNO_MIN_CHILDREN": "1",
        "TURNO_MAX_CHILDREN": "2",
        "TURNO_HEARTBEAT_SECONDS": "0.2",
    }
    return world._spawn([sys.executable, "-c", BROKEN, str(company)], environment)


def test_worker_ending_unexpectedly_returns_its_jobs(world: ExampleInstallation, company: Path) -> None:
    jobs = [world.enqueue({"how": "wait_for_company"}, handler=Odd) for _ in range(2)]
    pool = broken_pool(world, company)
    assert wait_until(lambda: {str(job) for job in jobs} <= {file.name for file in company.iterdir()}, within=20)
    mine = children(pool.pid)
    (company / "break").touch()
    said, _ = pool.communicate(timeout=20)
    assert pool.returncode == 1
    assert "a fault of the program's" in said
    for job_id in jobs:
        job = world.job(job_id)
        assert (job["status"], job["reason"], job["crashes"]) == ("pending", "its worker ended unexpectedly", 0), said
    assert world.rows("SELECT 1 FROM turno.workers") == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in mine)
