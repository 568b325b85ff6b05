from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from cli import main as table
from cli.main import COMMANDS, main
from tenants.directory import UnknownTenant

HEAVY = {"flask", "pydantic", "psycopg", "gunicorn", "jwt", "pika"}


def modules_loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_help_names_every_command_and_loads_none() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    loaded = modules_loaded_by("from cli.main import main; main(['--help'], standalone_mode=False)")
    assert not loaded & HEAVY


def test_a_cron_job_loads_neither_the_web_nor_click() -> None:
    loaded = modules_loaded_by("import cli.cleanup, cli.migrate")
    assert not loaded & {"flask", "pydantic", "click", "gunicorn", "jwt"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"{name}" in result.output.splitlines()[0]


def test_an_unknown_command_is_refused() -> None:
    result = CliRunner().invoke(main, ["dance"])
    assert result.exit_code == 2
    assert "No such command 'dance'" in result.output


def test_an_error_for_a_person_is_a_message_and_a_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(kind: type[Exception]) -> click.Command:
        @click.command()
        def command() -> None:
            raise kind("x")

        return command

    monkeypatch.setattr(table, "expected", fails(UnknownTenant), raising=False)
    monkeypatch.setattr(table, "unexpected", fails(RuntimeError), raising=False)
    for name in ("expected", "unexpected"):
        monkeypatch.setitem(COMMANDS, name, table.Entry(f"cli.main:{name}", "fails"))
    told = CliRunner().invoke(main, ["expected"])
    assert (told.exit_code, told.stderr) == (1, "no active tenant is called 'x'\n")
    assert isinstance(CliRunner().invoke(main, ["unexpected"]).exception, RuntimeError)
