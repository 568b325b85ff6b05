"""The nemesis sees missing sweeps, and missing rescues of dead workers' jobs."""

from __future__ import annotations

import pytest

from tests.faults.nemesis_run import assert_violation_without


@pytest.mark.timeout(600)
@pytest.mark.parametrize("guard", ["sweep", "rescue"])
def test_without_recovery_a_job_does_not_end(guard: str) -> None:
    assert_violation_without(guard)
