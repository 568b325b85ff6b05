"""The place of a job with a killed process or worker goes to the next of its key."""

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import OddBatched
from turno.servers.wait import wait_until
from turno.testing.invariants import judge_of


@pytest.mark.parametrize(
    ("backend", "crash_at"),
    [
        ("pool", "started:both"),
        pytest.param("pool", "", marks=pytest.mark.deep),
        pytest.param("exec", "", marks=pytest.mark.deep),
    ],
)
def test_the_killed_lose_their_places(world: ExampleInstallation, backend: str, crash_at: str) -> None:
    world.registry, world.backend = "tests.larger_batches:REGISTRY", backend
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")
    deeds = ("kill_self", "ok", "ok")
    jobs = [
        world.enqueue({"how": how, "text": f"G{n}"}, handler=OddBatched, concurrency_key="printer 3")
        for n, how in enumerate(deeds)
    ]
    children = {"TURNO_MIN_CHILDREN": "2", "TURNO_MAX_CHILDREN": "2"}
    if crash_at:
        world.start_pool(TURNO_CRASH_AT=crash_at, **children).wait(30)
        world.time_passes()
        world.sweep()
        world.time_passes()
    if backend == "pool":
        world.start_pool(**children)
    else:
        world.sweep(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: all(world.job(job)["finished_at"] for job in jobs), within=60)
    assert [world.job(job)["status"] for job in jobs] == ["failed", "completed", "completed"]
    with judge_of(world.url, world.one) as judge:
        assert judge.broken(accepted=jobs) == []
