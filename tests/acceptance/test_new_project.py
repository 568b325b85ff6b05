"""`turno init` in an empty folder: its server, its files and the commands that it prints work unchanged."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BIN = Path(sys.executable).parent
PIDS = Path(".turno", "database", "data", "postmaster.pid")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run a program of the environment in the folder, which may start a server."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}

    def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = (str(BIN / program), *words)
        return subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)

    yield run
    if (tmp_path / PIDS).exists():
        os.kill(int((tmp_path / PIDS).read_text(encoding="utf-8").split()[0]), signal.SIGINT)


def test_the_tests_of_a_new_project_pass(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    answers = [
        run("turno", "init", "--package", "shop.jobs", "--database-url", "postgresql://127.0.0.1:1/none"),
        run("turno", "handler", "add", "send_letters"),
        run("pytest", "-q", "-p", "no:cacheprovider"),
    ]
    for answer in answers:
        assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "does not answer" in answers[0].stdout
    assert "turno init --embedded" in answers[0].stdout
    assert "4 passed" in answers[2].stdout


def test_commands_printed_for_the_embedded_server_work(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    made = run("turno", "init", "--embedded")
    assert made.returncode == 0, made.stderr
    *commands, doctor = re.findall(r"^  turno (.+?)(?:  .*)?$", made.stdout, re.MULTILINE)
    assert [command.split()[:2] for command in commands] == [["db", "plan"], ["db", "migrate"], ["tenant", "add"]]
    for command in commands:
        answer = run("turno", *shlex.split(command), *(["--yes"] if "migrate" in command else []))
        assert answer.returncode == 0, answer.stdout + answer.stderr
    problems = run("turno", *shlex.split(doctor)).stdout.splitlines()
    assert [line.partition(":")[0] for line in problems] == ["no process runs maintenance by itself", "1 to mend"]
    again = run("turno", "init", "--embedded").stdout
    printed = re.findall(r"^  turno (.+?)(?:  .*)?$", again, re.MULTILINE)
    assert printed == ["db migrate", "job list --tenant suc0001", "doctor"]
    assert run("turno", *shlex.split(printed[1])).returncode == 0
    assert "kept .env" in again
