"""`turno init` and `turno handler add`: the files that they write, and the files that they leave unchanged."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from dotenv import dotenv_values

from turno.commands.doctor import of_settings
from turno.commands.main import main
from turno.environment import read_settings, variables
from turno.settings import Settings

if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNO_HANDLERS", raising=False)
    return tmp_path


def turno(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def texts(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_an_empty_folder_gets_keys_a_handler_and_its_test(project: Path) -> None:
    assert turno("init").exit_code == 0
    assert texts(project).keys() == {
        ".env", "pyproject.toml", "jobs/__init__.py", "jobs/monthly_report.py", "tests/conftest.py",
        "tests/test_monthly_report.py",
    }  # fmt: skip
    assert (project / ".env").stat().st_mode & 0o777 == 0o600
    settings = Settings.read({name: value or "" for name, value in dotenv_values(".env").items()})
    settings.require("database_url", "master_key", "jwt_key")
    assert settings.master_key != settings.jwt_key


def test_the_keys_of_two_projects_differ(project: Path) -> None:
    turno("init")
    first = dotenv_values(".env")
    (project / ".env").unlink()
    turno("init")
    assert first["TURNO_MASTER_KEY"] != dotenv_values(".env")["TURNO_MASTER_KEY"]


def test_a_second_run_changes_nothing(project: Path) -> None:
    turno("init")
    before = texts(project)
    again = turno("init")
    assert (again.exit_code, texts(project)) == (0, before)
    assert "kept TURNO_HANDLERS=jobs:HANDLERS" in again.output
    assert "ignored" not in again.output


def test_ignored_options_are_reported(project: Path) -> None:
    turno("init", "--database-url", "postgresql://db/shop")
    before = texts(project)
    again = turno("init", "--database-url", "postgresql://other/shop", "--package", "app.jobs", "--handler", "report")
    assert (again.exit_code, texts(project)) == (0, before)
    ignored = [line.split(":")[0] for line in again.output.splitlines() if line.startswith("ignored ")]
    assert ignored == ["ignored --package", "ignored --handler", "ignored --database-url"]


def test_init_writes_its_own_url_beside_the_host_s(project: Path) -> None:
    (project / ".env").write_text("DATABASE_URL=postgresql://db/shop\nDATABASE_USER=shop\n")
    for _ in range(2):
        assert turno("init", "--database-url", "postgresql://provisioner@db/shop").exit_code == 0
        assert dotenv_values(".env")["DATABASE_URL"] == "postgresql://db/shop"
        assert read_settings().database_url == "postgresql://provisioner@db/shop"
    assert [finding.problem for finding in of_settings(variables()) if "DATABASE" in finding.problem] == []


def test_env_file_keeps_values_and_gets_missing_ones(project: Path) -> None:
    (project / ".env").write_text("SHOP=1\nTURNO_MASTER_KEY=the one that the roles were made with")
    turno("init", "--database-url", "postgresql://db/shop")
    assert (project / ".env").read_text().startswith("SHOP=1\nTURNO_MASTER_KEY=the one that the roles were made with\n")
    values = dotenv_values(".env")
    assert (values["TURNO_DATABASE_URL"], values["TURNO_MASTER_KEY"]) == (
        "postgresql://db/shop",
        "the one that the roles were made with",
    )


def test_a_project_s_own_tables_stay_as_they_are(project: Path) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "shop"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n')
    turno("init", "--package", "app.jobs")
    content = tomllib.loads((project / "pyproject.toml").read_text())
    assert content["project"] == {"name": "shop"}
    assert content["tool"] == {"pytest": {"ini_options": {"addopts": "-q"}}, "turno": {"handlers": "app.jobs:HANDLERS"}}
    assert (project / "app/jobs/monthly_report.py").is_file()


@pytest.mark.parametrize(("ignored", "after"), [(None, ".env\n"), ("*.pyc\n", "*.pyc\n.env\n"), (".env\n", ".env\n")])
def test_the_keys_are_kept_out_of_git(project: Path, ignored: str | None, after: str) -> None:
    (project / ".git").mkdir()
    if ignored is not None:
        (project / ".gitignore").write_text(ignored)
    turno("init")
    assert (project / ".gitignore").read_text() == after


def test_a_file_that_is_there_is_named_and_nothing_is_written(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests/test_monthly_report.py").write_text("mine\n")
    refused = turno("init")
    assert refused.exit_code == 1
    assert texts(project) == {"tests/test_monthly_report.py": "mine\n"}


@pytest.mark.parametrize("package", ["my-jobs", "jobs:HANDLERS", "../jobs", ""])
def test_invalid_package_name_is_refused(project: Path, package: str) -> None:
    assert turno("init", "--package", package).exit_code == 1
    assert texts(project) == {}


def test_a_further_handler_is_added_to_the_list(project: Path) -> None:
    turno("init")
    done = turno("handler", "add", "send_letters")
    assert "added SendLetters to HANDLERS in jobs/__init__.py" in done.output
    assert (project / "jobs/__init__.py").read_text().splitlines()[2:] == [
        "from jobs.monthly_report import MonthlyReport",
        "from jobs.send_letters import SendLetters",
        "",
        "HANDLERS = [MonthlyReport, SendLetters]",
    ]


def test_a_list_that_is_computed_is_left_to_its_author(project: Path) -> None:
    turno("init")
    (project / "jobs/__init__.py").write_text("HANDLERS = list(found())\n")
    done = turno("handler", "add", "send_letters")
    assert "from jobs.send_letters import SendLetters" in done.output
    assert (project / "jobs/__init__.py").read_text() == "HANDLERS = list(found())\n"


@pytest.mark.parametrize("name", ["Send", "send-letters", "1st", "class", "../x", "x" * 64])
def test_invalid_type_name_is_refused(project: Path, name: str) -> None:
    turno("init")
    before = texts(project)
    assert turno("handler", "add", name).exit_code == 1
    assert texts(project) == before


def test_project_without_handlers_shows_the_first_command() -> None:
    assert turno("handler", "add", "send_letters").exit_code == 1


def test_handler_add_writes_no_folder_that_hides_turno(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNO_HANDLERS", "turno.contrib.django.handlers:discover")
    refused = turno("handler", "add", "send_letters")
    assert refused.exit_code != 0
    assert "in a module of yours" in str(refused.output) + str(refused.exception)
    assert texts(project) == {}
