"""Real work under a minute of random faults breaks no invariant."""

from __future__ import annotations

import pytest

from tests.faults.nemesis_run import nemesis, verdict_of


@pytest.mark.timeout(600)
def test_minute_of_all_faults_breaks_nothing() -> None:
    verdict = verdict_of(nemesis("--seed", "4", "--minutes", "1"), status=0)
    assert (verdict["ok"], verdict["violations"], verdict["seed"]) == (True, [], 4)
    assert verdict["requested"] > 25
    assert verdict["invoices"] > 50
    assert verdict["answers"]["202"] > 25
    assert {kind for kind, struck in verdict["faults"].items() if struck} >= {"kill web", "change backend"}
    assert len(verdict["faults"]) >= 10
    assert verdict["attempts"]["crashed"] > 0
    assert all(job.split()[1] in {"completed", "failed", "cancelled"} for job in verdict["jobs"])
