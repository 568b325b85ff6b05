"""`turno nemesis` as a process, and its verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.acceptance.turno_process import bare_environment
from tests.mutants.copied_tree import ROOT
from tests.mutants.nemesis import PROOFS

PATIENCE = 8  # seconds of standstill; with the guard in its place nothing stands still for as long


def nemesis(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Return the ended command."""
    return subprocess.run(
        [sys.executable, "-m", "turno.commands.main", "nemesis", *arguments, "--json"],
        cwd=ROOT,
        env=bare_environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=560,
    )


def verdict_of(ended: subprocess.CompletedProcess[str], *, status: int) -> dict[str, Any]:
    """Return the verdict of a run that must have ended with this exit status."""
    assert ended.returncode == status, ended.stdout + ended.stderr
    verdict: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return verdict


def assert_violation_without(guard: str) -> None:
    """Play the guard's proof: the run must find the violation."""
    proof = PROOFS[guard]
    ended = nemesis("--seed", "1", "--patience", str(PATIENCE), "--without", guard, *proof.arguments)
    violations = verdict_of(ended, status=1)["violations"]
    assert any(violation.startswith(proof.broken) for violation in violations), violations
