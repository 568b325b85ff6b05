"""A server that crashes at a named step of a batch's life: each of its jobs ends once, by a remaining claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.servers.embedded_postgres import Cluster
from tests.batch_in_process import claim_batches_in_process, execute_batch_in_process
from tests.faults.own_server import own_example, reconnect
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import RUNS, FaultyBatched
from turno import crash_points


@pytest.fixture(scope="module")
def own(
    tmp_path_factory: pytest.TempPathFactory, postgres_template: Path
) -> Iterator[tuple[Cluster, ExampleInstallation]]:
    with own_example(tmp_path_factory.mktemp("own"), postgres_template, durable=True) as (cluster, example):
        example.backend = "pool"
        yield cluster, example
        reconnect(example)


@pytest.mark.parametrize("step", ["started", "member", "completing", "completed"])
def test_uncommitted_work_is_done_once(
    own: tuple[Cluster, ExampleInstallation], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    cluster, example = own
    example.reset()
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    RUNS.clear()
    jobs = [example.enqueue({"how": "ok", "text": f"G{n}"}, handler=FaultyBatched) for n in range(3)]
    crashed: list[str] = []

    def crash(name: str) -> None:
        if name == step and not crashed:
            crashed.append(name)
            cluster.kill()
            cluster.start()

    (claims,) = claim_batches_in_process(example)
    monkeypatch.setattr(crash_points, "reach", crash)
    execute_batch_in_process(example, claims)
    assert crashed == [step]
    reconnect(example)
    # Claims are not synced: a claim that was lost with the server has no owner. If it was synced by chance, the lost
    # reply to the commit counts as an error of the job.
    example.time_passes()
    for batch in claim_batches_in_process(example):
        execute_batch_in_process(example, batch)
    result = [example.job(job_id) for job_id in jobs]
    assert [(job["status"], job["crashes"]) for job in result] == [("completed", 0)] * 3
    assert max(job["errors"] for job in result) <= 1
    made = example.rows("SELECT id FROM customers WHERE country = 'batched' ORDER BY id")
    assert [row["id"] for row in made] == ["G0", "G1", "G2"]
    assert example.rows("SELECT 1 FROM turno.tickets") == []
