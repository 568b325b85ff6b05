"""What the programs that run jobs take on their command lines, and what they say to anything else."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from turno.commands.main import main
from turno.wiring.shared import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = {
    "worker_pool": "pool", "rabbitmq_consumer": "consume", "maintain": "maintain",
    "cleanup": "cleanup", "migrate": "migrate",
}  # fmt: skip


def run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "cli" / f"{script}.py"), *arguments]
    environment = {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_the_command_of_its_table(script: str, tmp_path: Path) -> None:
    told = run(tmp_path, script, "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith(f"Usage: turno {SCRIPTS[script]} [OPTIONS]")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_without_settings_names_what_is_missing(script: str, tmp_path: Path) -> None:
    told = run(tmp_path, script)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("cannot start, please correct:\n")
    assert "_URL is not set: where " in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument 'JOB_ID'."),
        (("7",), "Invalid value for 'JOB_ID': '7' is not a valid UUID."),
        (("0192d3a4-5b6c-7d8e-9f01-23456789abcd", "again"), "unexpected extra argument"),
    ],
)
def test_a_worker_that_is_not_given_one_job_id_says_so(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    told = run(tmp_path, "background_worker", *arguments)
    assert told.returncode == 2
    assert told.stderr.startswith("Usage: background_worker.py [OPTIONS] JOB_ID")
    assert said in told.stderr


@pytest.mark.parametrize("command", ["pool", "consume"])
@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--min", "-1"), "Invalid value for '--min': -1 is not in the range 0<=x<=256."),
        (("--max", "0"), "Invalid value for '--max': 0 is not in the range 1<=x<=256."),
        (("--max", "many"), "Invalid value for '--max'"),
        (("--queue", "hot"), "No such option '--queue'. Did you mean '--queues'?"),
    ],
)
def test_a_wrong_option_of_a_resident_is_named(command: str, option: tuple[str, str], said: str) -> None:
    told = CliRunner().invoke(main, [command, *option])
    assert told.exit_code == 2
    assert said in told.stderr
