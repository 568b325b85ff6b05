"""Real work under random faults breaks no invariant; without a guard the same work does, and the judge says so."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cli.nemesis.schedule import HOLDS, WEIGHTS, Schedule
from cli.nemesis_command import GUARDS
from tests.acceptance.turno_process import bare_environment
from tests.mutants.copied_tree import ROOT
from tests.mutants.nemesis import CUTS

# For each guard the shortest run that shows its absence every time, and what is then broken.
SHOWN_BY = {
    "token": (("--minutes", "2", "--faults", "freeze worker"), "I5: an effect is of no attempt"),
    "sweep": (("--minutes", "0.15", "--faults", "kill worker"), "I6: a job did not end"),
    "rescue": (("--minutes", "0.3", "--faults", "kill worker,kill both"), "I7: a ticket is still held"),
    "unique": (("--minutes", "0.3", "--faults", "kill child"), "I1: two jobs under one key"),
    "savepoint": (("--minutes", "0.3", "--faults", "kill child"), "I2: an item and its effect are not both there"),
}


def nemesis(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "nemesis", *arguments, "--json"],
        cwd=ROOT,
        env=bare_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


@pytest.mark.timeout(300)
def test_a_minute_of_everything_breaks_nothing() -> None:
    ended = nemesis("--seed", "4", "--minutes", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    verdict = json.loads(ended.stdout.splitlines()[-1])
    assert (verdict["ok"], verdict["violations"], verdict["seed"]) == (True, [], 4)
    assert verdict["asked"] > 50
    assert verdict["invoices"] > 100
    assert len(verdict["faults"]) >= 5
    assert verdict["attempts"]["crashed"] > 0
    assert all(job.split()[1] in {"completed", "failed", "cancelled"} for job in verdict["jobs"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("guard", GUARDS)
def test_without_the_guard_the_run_fails(guard: str) -> None:
    arguments, broken = SHOWN_BY[guard]
    ended = nemesis("--seed", "1", "--patience", "8", "--without", guard, *arguments)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    verdict = json.loads(ended.stdout.splitlines()[-1])
    assert any(violation.startswith(broken) for violation in verdict["violations"]), verdict


def test_every_guard_can_be_cut_out_and_only_of_a_copy() -> None:
    assert set(CUTS) == set(GUARDS) == set(SHOWN_BY)
    for cuts in CUTS.values():
        for cut in cuts:
            assert any(cut.old in path.read_text() for path in ROOT.glob(cut.files)), cut
    command = (ROOT / "cli" / "nemesis_command.py").read_text()
    assert not any(cut.old in command for cuts in CUTS.values() for cut in cuts)


def test_a_seed_is_a_schedule() -> None:
    once, again, other = Schedule.of(5, 600), Schedule.of(5, 600), Schedule.of(6, 600)
    assert once == again
    assert once.faults != other.faults
    assert {fault.kind for fault in once.faults} == set(WEIGHTS)
    assert all(0 < fault.at < 598 and 0 <= fault.whom <= 1 for fault in once.faults)
    assert all((fault.hold > 0) == (fault.kind in HOLDS) for fault in once.faults)
    assert {fault.kind for fault in Schedule.of(5, 60, ["kill child"]).faults} == {"kill child"}


def test_an_unknown_fault_is_told() -> None:
    ended = nemesis("--faults", "earthquake")
    assert ended.returncode == 2
    assert "no such fault: earthquake; there are: kill child" in ended.stderr
