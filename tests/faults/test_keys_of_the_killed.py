"""The place of a job with a killed process or worker goes to the next of its key."""

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import FaultyBatched
from turno.testing.invariants import judge_of
from turno.testing.wait import wait_until


@pytest.mark.parametrize(
    ("backend", "crash_at"),
    [
        ("pool", "started:both"),
        pytest.param("pool", "", marks=pytest.mark.deep),
        pytest.param("exec", "", marks=pytest.mark.deep),
    ],
)
def test_the_killed_lose_their_places(example: ExampleInstallation, backend: str, crash_at: str) -> None:
    example.registry, example.backend = "tests.larger_batches:REGISTRY", backend
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    deeds = ("kill_self", "ok", "ok")
    jobs = [
        example.enqueue({"how": how, "text": f"G{n}"}, handler=FaultyBatched, concurrency_key="printer 3")
        for n, how in enumerate(deeds)
    ]
    children = {"TURNO_MIN_CHILDREN": "2", "TURNO_MAX_CHILDREN": "2"}
    if crash_at:
        example.start_pool(TURNO_CRASH_AT=crash_at, **children).wait(30)
        example.time_passes()
        example.sweep()
        example.time_passes()
    if backend == "pool":
        example.start_pool(**children)
    else:
        example.sweep(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: all(example.job(job)["finished_at"] for job in jobs), within=60)
    assert [example.job(job)["status"] for job in jobs] == ["failed", "completed", "completed"]
    with judge_of(example.url, example.one) as judge:
        assert judge.broken(accepted=jobs) == []
