"""Python of a tenant's choice in a handler: the reachable secrets of the installation."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from psycopg import sql

from tests.installation import KEY, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.spying_handlers import Spy
from turno.jobs.job import JobRef
from turno.tenancy.provisioning.provision import read_company
from turno.testing import processes
from turno.testing.wait import wait_until
from turno.wiring.shared import exec_queue

SECRETS = {
    "TURNO_ADMIN_DATABASE_URL": "postgresql://provisioner:password-of-the-provisioner@db.example/turno",
    "RABBITMQ_URL": "amqp://turno:password-of-the-consumer@broker.example/turno",
    "TURNO_RABBITMQ_RELAY_URL": "amqp://turno:password-of-the-relay@broker.example/turno",
    "TURNO_JWT_KEY": "a key that tokens are made with, 32 bytes or more",
    "TURNO_DEMO_TOKEN": "a token that opens the API",
    "TURNO_MASTER_KEY": KEY,
}
OWN = {"SHOP_URL": "https://shop.example", "TURNO_VISIBLE": ""}
Start = Callable[[ExampleInstallation, UUID], object]
STARTS: dict[str, Start] = {
    "a pool": lambda example, _job: example.start_pool(TURNO_MAX_CHILDREN="1", **SECRETS, **OWN),
    "a worker by hand": lambda example, job: example.start_worker(job, **SECRETS, **OWN),
    "a worker that was launched": lambda example, job: exec_queue(
        example.settings, example.environment | SECRETS | OWN
    ).offer(JobRef("suc0001", job)),
}


def spied(example: ExampleInstallation, start: Start) -> dict[str, Any]:
    """Run the spy in a worker, and return its findings."""
    example.registry = "tests.spying_handlers:REGISTRY"
    example.backend = "pool" if start is STARTS["a pool"] else "exec"
    logins = {"the engine": example.logins.engine, "the web": example.logins.web}
    logins["reports"] = read_company(example.admin, "northwind").report_role
    logins |= {f"the handler of {slug}": tenant.handler_role for slug, tenant in example.tenants.items()}
    passwords = {of: example.logins.password(role) for of, role in logins.items()}
    halves = {name: (secret[:9], secret[9:]) for name, secret in (SECRETS | passwords).items()}
    job_id = example.enqueue({"halves": halves}, handler=Spy)
    start(example, job_id)
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30), example.job(job_id)
    result: dict[str, Any] = example.job(job_id)["result"]
    return result


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_handler_reaches_only_its_tenant_password(example: ExampleInstallation, start: Start) -> None:
    result = spied(example, start)
    assert result["found"] == []
    assert result["own"] == "https://shop.example"
    assert (result["dumpable"], result["core"]) == (0, 0)
    # Its own tenant's password is its login's: a search there finds it.
    assert result["in memory"] == ["the handler of suc0001"]


def test_lost_fork_server_returns_jobs_uncounted(example: ExampleInstallation) -> None:
    example.faulty, example.backend = True, "pool"
    pool = example.start_pool(TURNO_MAX_CHILDREN="1")
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=30)
    # It was forked first, and leads no group, unlike children with jobs.
    forks = min(pid for pid in processes.below(pool.pid) if not processes.leads_a_group(pid))
    processes.kill(forks)
    log, _ = pool.communicate(timeout=30)
    assert pool.returncode == 1, log
    assert "this worker must start again" in log
    job = example.job(job_id)
    assert (job["status"], job["crashes"], job["errors"]) == ("pending", 0, 0), log
    assert example.rows("SELECT FROM turno.workers") == []


LOCKED_OUT = """
DO $$ BEGIN
    IF current_setting('server_version_num')::integer >= 170000 THEN
        ALTER ROLE CURRENT_USER SET transaction_timeout = '1ms';
    END IF;
END $$
"""


def test_handler_default_ends_no_later_session_of_tenant(example: ExampleInstallation) -> None:
    example.faulty = True
    poisoned = example.enqueue({"how": "run_sql", "text": LOCKED_OUT}, handler=Faulty)
    try:
        example.work(poisoned)
        later = example.enqueue({"how": "sleep_in_sql", "number": 1}, handler=Faulty)
        log = example.work(later)
        job = example.job(later)
        assert (job["status"], job["attempt"], job["errors"]) == ("completed", 1, 0), log
    finally:
        if example.admin.info.server_version >= 170000:
            role = sql.Identifier(example.one.handler_role)
            example.admin.execute(sql.SQL("ALTER ROLE {} RESET transaction_timeout").format(role))
