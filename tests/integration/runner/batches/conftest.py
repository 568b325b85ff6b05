"""A worker of the pool that keeps its batches open, and no row that breaks an invariant afterwards."""

from collections.abc import Iterator

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import HOOKS, RUNS
from tests.misdeeds.transactions import TRIES
from turno.runner import executor
from turno.testing.invariants import judge_of


@pytest.fixture(autouse=True)
def batched(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    example.backend = "pool"
    monkeypatch.setattr(executor, "SHARED_SECONDS", 60.0)  # on a machine of any speed
    TRIES.clear()
    RUNS.clear()
    HOOKS.clear()
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    yield
    with judge_of(example.url, example.one) as judge:
        # The handlers here have effects of their own, which the tests look at.
        assert [rule for rule in judge.broken() if not rule.startswith("I2: an end and its effect")] == []
