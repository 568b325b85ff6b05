"""The arguments of the nemesis: a seed is a schedule, names are known ones, and each guard has its cut and its
proof."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from cli.commands.nemesis import GUARDS
from nemesis.schedule import HOLDS, WEIGHTS, Schedule
from nemesis.workload import KINDS
from tests.faults.nemesis_run import nemesis, verdict_of
from tests.mutants.copied_tree import ROOT
from tests.mutants.nemesis import CUTS, PROOFS


def test_every_guard_can_be_cut_out_and_only_of_a_copy() -> None:
    assert set(CUTS) == set(GUARDS) == set(PROOFS)
    for cuts in CUTS.values():
        for cut in cuts:
            assert any(cut.old in path.read_text() for path in ROOT.glob(cut.files)), cut
    command = (ROOT / "cli" / "commands" / "nemesis.py").read_text()
    assert not any(cut.old in command for cuts in CUTS.values() for cut in cuts)


def test_every_proof_is_played() -> None:
    played = "".join(path.read_text() for path in (ROOT / "tests" / "faults").glob("test_nemesis_without_*.py"))
    assert all(f'"{guard}"' in played for guard in PROOFS)


def test_a_seed_is_a_schedule() -> None:
    once, again, other = Schedule.of(5, 1200), Schedule.of(5, 1200), Schedule.of(6, 1200)
    assert once == again
    assert once.faults != other.faults
    assert {fault.kind for fault in once.faults} == set(WEIGHTS)
    assert all(0 < fault.at < 1198 and 0 <= fault.fraction <= 1 for fault in once.faults)
    assert all((fault.hold > 0) == (fault.kind in HOLDS) for fault in once.faults)
    assert {fault.kind for fault in Schedule.of(5, 60, ["kill child"]).faults} == {"kill child"}


@pytest.mark.parametrize(
    ("option", "message", "known"),
    [("--faults", "no such fault: earthquake", WEIGHTS), ("--work", "no such kind of work: earthquake", KINDS)],
)
def test_unknown_name_is_reported(option: str, message: str, known: dict[str, int]) -> None:
    ended = nemesis(option, "earthquake")
    assert ended.returncode == 2
    assert f"{message}; there are: {', '.join(known)}" in ended.stderr


@pytest.mark.timeout(600)
def test_a_fault_that_cannot_be_done_here_is_named(tmp_path: Path) -> None:
    # A machine without `ip` and RabbitMQ, on which all else runs.
    for tool in ("unshare", "setpriv", "true", "test"):
        if path := shutil.which(tool):
            (tmp_path / tool).symlink_to(path)
    poor = os.pathsep.join((str(Path(sys.executable).parent), str(tmp_path)))
    faults = ("purge queues", "blackhole")
    ended = nemesis("--minutes", "0.1", "--faults", ",".join(faults), "--work", "plain", "--open", "5", PATH=poor)
    verdict = verdict_of(ended, status=0)
    assert verdict["faults"] == dict.fromkeys(faults, 0)
    assert {line.partition(":")[0] for line in verdict["not_done"]} == set(faults)
    assert all(f"NOT DONE {line}" in ended.stdout for line in verdict["not_done"])
