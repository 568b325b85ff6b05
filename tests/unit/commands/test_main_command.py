from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from turno.capability import Command
from turno.commands import main as table
from turno.commands.main import COMMANDS, main
from turno.tenancy.identity.directory import UnknownTenant
from turno.wiring.shared import ROOT

HEAVY = {"flask", "pydantic", "psycopg", "uvicorn", "jwt", "pika"}


def modules_loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_help_names_every_command_and_loads_none() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    loaded = modules_loaded_by("from turno.commands.main import main; main(['--help'], standalone_mode=False)")
    assert not loaded & HEAVY


def test_a_cron_job_loads_nothing_of_the_web() -> None:
    loaded = modules_loaded_by("import turno.commands.work, turno.commands.db")
    assert not loaded & {"flask", "pydantic", "uvicorn", "jwt"}


def test_launched_worker_loads_no_rare_package() -> None:
    loaded = modules_loaded_by("import turno.commands.background_worker, turno.wiring.workers")
    assert not loaded & {"flask", "pydantic", "pika", "jwt", "click", "cronsim"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_at_its_place_in_the_table(name: str) -> None:
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0, result.output
    assert f"{name}" in result.output.splitlines()[0]


def test_a_group_without_a_module_lists_its_commands() -> None:
    result = CliRunner().invoke(main, ["db", "--help"])
    assert (result.exit_code, "Migrate the database" in result.output) == (0, True)
    assert CliRunner().invoke(main, ["db", "dance"]).exit_code == 2


def test_an_unknown_command_is_refused() -> None:
    result = CliRunner().invoke(main, ["dance"])
    assert result.exit_code == 2
    assert "No such command 'dance'" in result.output


def test_user_error_is_a_message_and_a_fault_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(kind: type[Exception]) -> click.Command:
        @click.command()
        def command() -> None:
            raise kind("x")

        return command

    monkeypatch.setattr(table, "expected", fails(UnknownTenant), raising=False)
    monkeypatch.setattr(table, "unexpected", fails(RuntimeError), raising=False)
    for name in ("expected", "unexpected"):
        monkeypatch.setitem(COMMANDS, name, Command(f"turno.commands.main:{name}", "fails"))
    reply = CliRunner().invoke(main, ["expected"])
    assert (reply.exit_code, reply.stderr) == (1, "no active tenant is called 'x'; see `turno tenant list`\n")
    assert isinstance(CliRunner().invoke(main, ["unexpected"]).exception, RuntimeError)


SHOWS = """
import sys, click
from turno.capability import Command
from turno.commands import main
from turno.environment import read_settings
@click.command()
def shows():
    read = read_settings()
    print([read.log_level, read.web_bind, read.master_key, read.jwt_key])
main.shows = shows
main.COMMANDS["shows"] = Command("turno.commands.main:shows", "shows")
main.main(["--env-file", sys.argv[1], "shows"])
"""


def test_env_file_replaces_dotenv_below_the_environment(tmp_path: Path) -> None:
    given = "TURNO_WEB_BIND=127.0.0.1:1\nTURNO_MASTER_KEY='a \\'quoted\\' ${HOME} # key'\nTURNO_JWT_KEY=$(id)&`id`\n"
    (tmp_path / ".env").write_text("TURNO_LOG_LEVEL=ERROR\n")
    (tmp_path / "turno.env").write_text(given)
    for name, stdin in (("turno.env", ""), ("-", given)):
        done = subprocess.run(
            [sys.executable, "-c", SHOWS, name],
            env={"PYTHONPATH": str(ROOT), "TURNO_WEB_BIND": "127.0.0.1:2"},
            input=stdin, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.strip() == str(["INFO", "127.0.0.1:2", "a 'quoted' ${HOME} # key", "$(id)&`id`"])


def test_missing_env_file_is_reported() -> None:
    reply = CliRunner().invoke(main, ["--env-file", "/nowhere/turno.env", "worker", "list"])
    assert (reply.exit_code, reply.stderr.splitlines()[0]) == (1, "cannot start, please correct:")
    assert "/nowhere/turno.env" in reply.stderr


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def test_application_has_separate_commands(project: Path) -> None:
    (project / "shop_commands.py").write_text(
        "import click\n@click.command()\ndef stock():\n    click.echo('3 left')\n"
        "COMMANDS = {'stock': ('shop_commands:stock', 'Count what is left.')}\n"
    )
    (project / "pyproject.toml").write_text('[tool.turno]\ncommands = "shop_commands:COMMANDS"\n')
    assert "Count what is left." in CliRunner().invoke(main, ["--help"]).output
    assert CliRunner().invoke(main, ["stock"]).output == "3 left\n"


def test_unloadable_commands_are_reported(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.turno]\ncommands = "nowhere:COMMANDS"\n')
    reply = CliRunner().invoke(main, ["stock"])
    assert reply.exit_code == 1
    assert "commands=nowhere:COMMANDS: ModuleNotFoundError" in reply.stderr
