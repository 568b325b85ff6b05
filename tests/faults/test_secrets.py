"""Python of its own choosing in a handler: which secrets of the installation it can lay hands on."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from app.jobs.job import JobRef
from cli.deadline import becomes_true
from cli.wiring import exec_queue
from tests.spying_handlers import Spy
from tests.world import KEY, World

SECRETS = {
    "ADMIN_DATABASE_URL": "postgresql://provisioner:password-of-the-provisioner@db.example/turno",
    "RABBITMQ_URL": "amqp://turno:password-of-the-consumer@broker.example/turno",
    "RABBITMQ_RELAY_URL": "amqp://turno:password-of-the-relay@broker.example/turno",
    "JWT_KEY": "a key that tokens are made with, 32 bytes or more",
    "DEMO_TOKEN": "a token that lets anybody in",
    "MASTER_KEY": KEY,
}
OWN = {"SHOP_URL": "https://shop.example", "TURNO_VISIBLE": ""}
Start = Callable[[World, UUID], object]
STARTS: dict[str, Start] = {
    "a pool": lambda world, _job: world.start_pool(POOL_MAX_CHILDREN="1", **SECRETS, **OWN),
    "a worker by hand": lambda world, job: world.start_worker(job, **SECRETS, **OWN),
    "a worker that was launched": lambda world, job: exec_queue(
        world.settings, world.environment | SECRETS | OWN, program=("-m", "cli.testing.worker", world.registry)
    ).offer(JobRef("suc0001", job)),
}


def spied(world: World, start: Start) -> dict[str, Any]:
    """Run the spy in a worker, and return what it found."""
    world.registry = "tests.spying_handlers:REGISTRY"
    world.backend = "pool" if start is STARTS["a pool"] else "exec"
    halves = {name: (secret[:9], secret[9:]) for name, secret in SECRETS.items()}
    job_id = world.enqueue({"halves": halves}, handler=Spy)
    start(world, job_id)
    assert becomes_true(lambda: world.job(job_id)["status"] == "completed", within=30), world.job(job_id)
    result: dict[str, Any] = world.job(job_id)["result"]
    return result


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_no_secret_stands_in_the_environment_of_what_runs_handlers(world: World, start: Start) -> None:
    found = spied(world, start)
    assert found["found"] == []
    assert found["own"] == "https://shop.example"
    assert (found["dumpable"], found["core"]) == (0, 0)
