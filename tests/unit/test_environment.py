from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from turno.environment import DEMO_ENVIRONMENT, handed_over, project, read_settings, variables
from turno.errors import InvalidSettings
from turno.wiring.shared import ROOT, without_secrets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and an environment without settings that is put back afterwards."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "DATABASE_URL",
        "TURNO_ADMIN_DATABASE_URL",
        "TURNO_MASTER_KEY",
        "TURNO_DOTENV",
        "TURNO_HANDLERS",
    ):
        # Set first, so that additions to the environment are removed again.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    DEMO_ENVIRONMENT.parent.mkdir()
    return tmp_path


def test_variables_that_are_set_win_over_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "dbname=set")
    (folder / ".env").write_text("DATABASE_URL=dbname=written\nTURNO_MASTER_KEY='a key'\n")
    settings = read_settings()
    assert (settings.database_url, settings.master_key) == ("dbname=set", "a key")


def test_a_prefixed_variable_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "dbname=host")
    (folder / ".env").write_text("TURNO_DATABASE_URL=dbname=turno\n")
    assert read_settings().database_url == "dbname=turno"
    assert without_secrets(variables()).keys().isdisjoint({"DATABASE_URL", "TURNO_DATABASE_URL"})


def test_files_add_nothing_to_the_environment(folder: Path) -> None:
    (folder / ".env").write_text(
        "DATABASE_URL=dbname=x\nTURNO_ADMIN_DATABASE_URL=dbname=y\nTURNO_MASTER_KEY=k\nTURNO_JWT_KEY=j\nX=1\n"
    )
    DEMO_ENVIRONMENT.write_text("DATABASE_URL=dbname=demo\n")
    (folder / "pyproject.toml").write_text('[tool.turno]\nhandlers = "shop:JOBS"\n')
    (folder / "further.env").write_text("TURNO_MASTER_KEY=further\n")
    before = dict(os.environ)
    assert read_settings().master_key == "k"
    code = (
        "import os; before = dict(os.environ); from turno.environment import read_env_file, read_settings;"
        "read_env_file('further.env'); print(read_settings().master_key, dict(os.environ) == before)"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.split() == ["further", "True"]
    assert dict(os.environ) == before


def test_a_mounting_application_keeps_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".env").write_text("TURNO_MASTER_KEY=the application's\nDATABASE_URL=dbname=x\n")
    (folder / "pyproject.toml").write_text('[tool.turno]\nhandlers = "shop:JOBS"\n')
    monkeypatch.setenv("DATABASE_URL", "dbname=set")
    settings = read_settings(dotenv=False)
    assert (settings.master_key, settings.database_url, settings.handlers) == ("", "dbname=set", "shop:JOBS")


def test_a_running_demo_is_used_where_no_database_is_named() -> None:
    DEMO_ENVIRONMENT.write_text("DATABASE_URL='dbname=demo host=/tmp'\nTURNO_MASTER_KEY='the demo'\\''s'\n")
    assert read_settings().database_url == "dbname=demo host=/tmp"


def test_a_demo_s_keys_are_not_used_for_another_database(monkeypatch: pytest.MonkeyPatch) -> None:
    DEMO_ENVIRONMENT.write_text(
        "DATABASE_URL='dbname=demo'\nTURNO_MASTER_KEY=demo\nTURNO_ADMIN_DATABASE_URL='dbname=demo user=x'\n"
    )
    monkeypatch.setenv("DATABASE_URL", "dbname=other")
    assert read_settings().master_key == ""
    monkeypatch.setenv("DATABASE_URL", "dbname=demo user=x")
    assert read_settings().master_key == "demo"


def test_a_spawned_worker_reads_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNO_DOTENV", "read")
    (folder / ".env").write_text("DATABASE_URL=dbname=written\n")
    assert read_settings().database_url == ""


def test_second_read_returns_the_same_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "dbname=x")
    assert read_settings().provisioner_url == "dbname=x"
    monkeypatch.setenv("TURNO_ADMIN_DATABASE_URL", "dbname=x user=admin password=secret")
    before = dict(os.environ)
    for _ in range(2):
        assert read_settings().provisioner_url == "dbname=x user=admin password=secret"
    assert dict(os.environ) == before


def test_handed_secrets_are_read_once_and_not_in_environ() -> None:
    secrets = {"TURNO_DATABASE_URL": "dbname=handed", "TURNO_MASTER_KEY": "a key that no environment has"}
    code = (
        "import os; from turno.settings import Settings; from turno.environment import read_settings;"
        "from turno.environment import seal; seal();"
        "assert Settings.read(os.environ).master_key == '';"
        "print([read_settings().master_key for _ in range(2)], 'TURNO_SECRETS_FD' in os.environ)"
    )
    with handed_over(secrets) as (variables, inherited):
        reply = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(ROOT), "TURNO_DOTENV": "read", **variables},
            pass_fds=inherited, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    assert reply.stdout.strip() == "['a key that no environment has', 'a key that no environment has'] False"


def test_program_receives_only_its_secrets() -> None:
    given = {
        "DATABASE_URL": "dbname=x",
        "TURNO_MASTER_KEY": "a key",
        "TURNO_ADMIN_DATABASE_URL": "dbname=x user=admin",
        "OWN": "y",
    }
    code = (
        "import os; from turno.environment import taken; from turno.environment import WORKERS_NEED, seal;"
        "seal(*WORKERS_NEED);"
        "print(sorted(taken().items()), os.environ['OWN'], [name for name in os.environ if name.endswith('_URL')])"
    )
    environment = {"PYTHONPATH": str(ROOT), "TURNO_DOTENV": "read", **given}
    reply = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert reply.strip() == "[('TURNO_DATABASE_URL', 'dbname=x'), ('TURNO_MASTER_KEY', 'a key')] y []"


def test_project_settings_count_without_variables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text('[tool.turno]\nhandlers = "shop:JOBS"\nmigrations = "tables"\n')
    assert (read_settings().handlers, project()["migrations"]) == ("shop:JOBS", "tables")
    monkeypatch.setenv("TURNO_HANDLERS", "shop:OTHERS")
    assert read_settings().handlers == "shop:OTHERS"


@pytest.mark.parametrize("text", ['handler = "shop:JOBS"', "handlers = 3", 'master_key = "it is committed"', "= 1"])
def test_invalid_project_settings_are_refused_with_file(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.turno]\n{text}\n")
    with pytest.raises(InvalidSettings, match=r"pyproject\.toml: "):
        read_settings()
