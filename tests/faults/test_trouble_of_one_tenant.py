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
from tests.misbehaving_handlers import Faulty
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.provisioning.provision import add_tenant
from turno.tenancy.provisioning.removal import remove_tenant
from turno.testing.processes import children
from turno.testing.wait import wait_until


@pytest.fixture(autouse=True)
def pool_backend(example: ExampleInstallation) -> None:
    example.faulty, example.backend = True, "pool"


@pytest.fixture
def company(example: ExampleInstallation, tmp_path: Path) -> Path:
    """Where jobs that wait for each other meet; see `wait_for_company`."""
    example.extra["MEET"] = str(tmp_path)
    return tmp_path


def completed(example: ExampleInstallation, job_id: UUID, tenant: Tenant) -> bool:
    return bool(example.job(job_id, tenant=tenant)["status"] == "completed")


@contextmanager
def locked(example: ExampleInstallation, table: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Hold the first tenant's table as a migration does that builds an index."""
    with psycopg.connect(example.url) as session:
        name = sql.Identifier(example.one.schema, table)
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(name))
        yield session
        session.rollback()


def test_refused_rescue_of_a_tenant_delays_no_other(example: ExampleInstallation, company: Path) -> None:
    victim = example.enqueue({"how": "wait_for_company"}, handler=Faulty)
    pool = example.start_pool(TURNO_MIN_CHILDREN="2", TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until((company / str(victim)).exists, within=20)
    running = [pid for pid in children(pool.pid) if str(victim).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
    output: list[str] = []
    with locked(example, "background_jobs"):
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        assert pool.stdout is not None
        for line in pool.stdout:
            output.append(line)
            if "job not taken back yet" in line:
                break
        others = [example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other) for _ in range(10)]
        assert wait_until(lambda: all(completed(example, job, example.other) for job in others), within=20), output
    assert wait_until(lambda: example.job(victim)["crashes"] == 1, within=10)
    assert pool.poll() is None


def test_unstartable_tenant_leaves_one_child_for_others(example: ExampleInstallation) -> None:
    pool = example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    waiting = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(5)]
    with locked(example, "background_jobs"):
        assert pool.stdout is not None
        assert any("attempt not started" in line for line in pool.stdout)
        others = [example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other) for _ in range(10)]
        assert wait_until(lambda: all(completed(example, job, example.other) for job in others), within=20)
    assert wait_until(lambda: all(completed(example, job, example.one) for job in waiting), within=20)
    assert {(job["errors"], job["crashes"]) for job in map(example.job, waiting)} == {(0, 0)}
    assert pool.poll() is None


@contextmanager
def locked_out(example: ExampleInstallation) -> Iterator[None]:
    """Let the server refuse the first tenant's login."""
    role = sql.Identifier(example.one.handler_role)
    example.admin.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
    try:
        yield
    finally:
        example.admin.execute(sql.SQL("ALTER ROLE {} LOGIN").format(role))


def test_refused_login_costs_few_children(example: ExampleInstallation) -> None:
    with locked_out(example):
        refused = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(20)]
        others = [example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other) for _ in range(40)]
        pool = example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="2", TURNO_LOG_LEVEL="ERROR")
        assert wait_until(lambda: all(completed(example, job, example.other) for job in others), within=20)
        unsettled = "SELECT 1 FROM turno.tickets WHERE state <> 'scheduled'"
        assert wait_until(lambda: example.rows(unsettled) == [], within=20)
        pool.send_signal(signal.SIGTERM)
        output, _ = pool.communicate(timeout=20)
    assert 1 <= output.count("is not permitted to log in") <= 4, output
    jobs = [example.job(job_id) for job_id in refused]
    assert {(job["status"], job["errors"], job["crashes"], job["attempt"]) for job in jobs} == {("pending", 0, 0, 0)}


def test_child_dead_before_each_start_ends_its_job(example: ExampleInstallation) -> None:
    example.backend = "exec"
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    example.work(job_id, crash_at="handed")
    job = example.job(job_id)
    assert (job["status"], job["crashes"], job["attempt"]) == ("failed", 3, 3)
    assert job["reason"].startswith("killed by SIGKILL")


@pytest.fixture
def brief_tenant(example: ExampleInstallation) -> Iterator[Tenant]:
    """A tenant that is removed while its job runs."""
    tenant = add_tenant(example.admin, example.logins, "suc0009", "northwind")
    yield tenant
    example.stop_workers()
    remove_tenant(example.admin, example.logins, "suc0009")


def test_removed_tenant_with_running_job_harms_no_worker(
    example: ExampleInstallation, company: Path, brief_tenant: Tenant
) -> None:
    theirs = example.enqueue({"how": "wait_for_company"}, handler=Faulty, tenant=brief_tenant)
    ours = example.enqueue({"how": "wait_for_company"}, handler=Faulty)
    pool = example.start_pool(TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: {str(theirs), str(ours)} <= {file.name for file in company.iterdir()}, within=20)
    example.admin.execute("RESET search_path")
    remove_tenant(example.admin, example.logins, "suc0009")
    (company / "go").touch()
    assert pool.stdout is not None
    assert any("its tenant is gone" in line for line in pool.stdout)
    assert wait_until(lambda: completed(example, ours, example.one), within=10)
    assert (example.job(ours)["attempt"], example.job(ours)["crashes"]) == (1, 0)
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


def broken_pool(example: ExampleInstallation, company: Path) -> Popen[str]:
    environment = example.environment | {
        "TURNO_MIN_CHILDREN": "1",
        "TURNO_MAX_CHILDREN": "2",
        "TURNO_HEARTBEAT_SECONDS": "0.2",
    }
    return example._spawn([sys.executable, "-c", BROKEN, str(company)], environment)


def test_worker_ending_unexpectedly_returns_its_jobs(example: ExampleInstallation, company: Path) -> None:
    jobs = [example.enqueue({"how": "wait_for_company"}, handler=Faulty) for _ in range(2)]
    pool = broken_pool(example, company)
    assert wait_until(lambda: {str(job) for job in jobs} <= {file.name for file in company.iterdir()}, within=20)
    mine = children(pool.pid)
    (company / "break").touch()
    output, _ = pool.communicate(timeout=20)
    assert pool.returncode == 1
    assert "a fault of the program's" in output
    for job_id in jobs:
        job = example.job(job_id)
        assert (job["status"], job["reason"], job["crashes"]) == ("pending", "its worker ended unexpectedly", 0), output
    assert example.rows("SELECT 1 FROM turno.workers") == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in mine)
