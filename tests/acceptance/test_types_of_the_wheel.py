"""A type checker with the installed wheel accepts correct code of an application, and refuses wrong code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

CODE = """
from dataclasses import dataclass
from typing import Any

import psycopg
import turno
from turno import JobContext, JobHandler


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Other:
    name: str


class Greet(JobHandler[Name]):
    type = "greet"

    def handle(self, job: JobContext, payload: Name) -> dict[str, Any]:
        job.enqueue(Greet, name=payload.name, priority="low")
        job.connection.execute("SELECT 1")
        return {"greeted": payload.name}


def greet(connection: psycopg.Connection[Any]) -> turno.Enqueued:
    turno.enqueue_many(connection, "suc0001", Greet, [Name("ana"), Name("ben")], keys=["1", "2"])
    turno.enqueue(connection, "suc0001", "greet", name="ana", priority="urgent")
    return turno.enqueue(connection, "suc0001", Greet, Name("ana"), run_in=5)


async def greet_async(connection: psycopg.AsyncConnection[Any]) -> turno.Enqueued:
    return await turno.enqueue_async(connection, "suc0001", Greet, {"name": "ana"})
"""
WRONG = {
    "a priority": 'turno.enqueue(None, "suc0001", Greet, priority="first")',
    "a class of payload": 'turno.enqueue(None, "suc0001", Greet, Other("ana"))',
    "an option": 'turno.enqueue(None, "suc0001", Greet, Name("ana"), run_in="soon")',
    "an answer": 'print(turno.enqueue(None, "suc0001", Greet, Name("ana")).id)',
}


WRONG_CODE = CODE + "\n".join(["", *WRONG.values(), ""])
WRONG_LINES = {len(CODE.splitlines()) + 2 + number for number in range(len(WRONG))}


def checked(folder: Path, programs: Path, code: str) -> tuple[int, str]:
    (folder / "shop.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(programs / "python"), "shop.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=200)
    return done.returncode, done.stdout + done.stderr


def test_correct_code_passes_mypy_strict(tmp_path: Path, programs: Path) -> None:
    assert checked(tmp_path, programs, CODE) == (0, "Success: no issues found in 1 source file\n")


def test_each_wrong_call_is_found(tmp_path: Path, programs: Path) -> None:
    status, result = checked(tmp_path, programs, WRONG_CODE)
    lines = {int(line.split(":")[1]) for line in result.splitlines() if ": error:" in line}
    assert (status, lines) == (1, WRONG_LINES), result


def test_pyright_strict_finds_each_wrong_call_and_no_other(tmp_path: Path, programs: Path) -> None:
    """By basedpyright: unlike pyright's own package, it includes the checker and downloads nothing when it runs."""
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    (tmp_path / "shop.py").write_text(CODE)
    (tmp_path / "wrong.py").write_text(WRONG_CODE)
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", str(programs / "python")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    found = json.loads(done.stdout)
    places = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found["generalDiagnostics"]}
    assert (found["summary"]["filesAnalyzed"], places) == (2, {("wrong.py", line) for line in WRONG_LINES}), done.stdout
