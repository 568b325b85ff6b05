"""The arguments of the programs that run jobs, and their refusals."""

from __future__ import annotations

import re
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
    "worker_pool": "work", "rabbitmq_consumer": "work", "maintain": "maintain",
    "cleanup": "maintain", "migrate": "db migrate",
}  # fmt: skip


JOB = "0192d3a4-5b6c-7d8e-9f01-23456789abcd"
# No server listens there: a program that connects reports it.
NOWHERE = {
    "DATABASE_URL": "postgresql://127.0.0.1:1/turno", "TURNO_MASTER_KEY": "m" * 32, "TURNO_JWT_KEY": "j" * 32,
    "RABBITMQ_URL": "amqp://127.0.0.1:1", "TURNO_WEB_BIND": "127.0.0.1:0",
}  # fmt: skip


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def script(name: str) -> str:
    return str(ROOT / "cli" / f"{name}.py")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_the_command_of_its_table(name: str, tmp_path: Path) -> None:
    reply = run(tmp_path, script(name), "--help")
    assert (reply.returncode, reply.stderr) == (0, "")
    assert reply.stdout.startswith(f"Usage: turno {SCRIPTS[name]} [OPTIONS]")


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_without_settings_names_the_missing_ones(name: str, tmp_path: Path) -> None:
    reply = run(tmp_path, script(name))
    assert (reply.returncode, reply.stdout) == (1, "")
    assert reply.stderr.startswith("cannot start, please correct:\n")
    assert re.search("(_URL|HANDLERS) is not set: ", reply.stderr)
    assert "Traceback" not in reply.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'JOB_ID'."),
        (("7",), "Invalid value for 'JOB_ID': '7' is not a valid UUID."),
        ((JOB, "again"), "unexpected extra argument"),
    ],
)
def test_worker_without_one_job_id_is_refused(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    reply = run(tmp_path, script("background_worker"), *arguments)
    assert reply.returncode == 2
    assert reply.stderr.startswith("Usage: background_worker.py [OPTIONS] JOB_ID")
    assert message in reply.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--min", "-1"), "Invalid value for '--min': -1 is not in the range 0<=x<=256."),
        (("--max", "0"), "Invalid value for '--max': 0 is not in the range 1<=x<=256."),
        (("--max", "many"), "Invalid value for '--max'"),
        (("--queue", "hot"), "No such option '--queue'. Did you mean '--queues'?"),
    ],
)
def test_a_wrong_option_of_work_is_named(option: tuple[str, str], message: str) -> None:
    reply = CliRunner().invoke(main, ["work", *option])
    assert reply.exit_code == 2
    assert message in reply.stderr


BROKEN = """
from turno.jobs.handler import Registry
LISTED = Registry({"gone": "no_such_shop:Gone", "faulty": "json:Nothing"})
"""
STARTS = {
    "serve": ("-m", "turno.commands.main", "serve"),
    "worker": ("-m", "turno.commands.main", "work", "--once"),
    "pool": (script("worker_pool"),),
    "consume": (script("rabbitmq_consumer"),),
    "a launched worker": (script("background_worker"), JOB),
}


@pytest.mark.parametrize("command", STARTS.values(), ids=STARTS)
def test_unloadable_handlers_are_refused_at_the_start(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "broken_shop.py").write_text(BROKEN)
    reply = run(tmp_path, *command, **NOWHERE, TURNO_HANDLERS="broken_shop:LISTED")
    assert reply.returncode == 1
    assert "the type gone cannot be loaded from no_such_shop:Gone: ModuleNotFoundError" in reply.stderr
    assert "the type faulty cannot be loaded from json:Nothing: AttributeError" in reply.stderr
    assert "Traceback" not in reply.stderr


FAILS = "import os\nKEY = os.environ['ERP_KEY']\n"
FACTORY = "def create_app():\n    raise RuntimeError('no cache')\n"


@pytest.mark.parametrize(
    ("command", "variables", "content", "message"),
    [
        (
            ("work",),
            {"TURNO_HANDLERS": "erp:HANDLERS"},
            FAILS,
            "TURNO_HANDLERS=erp:HANDLERS: KeyError: 'ERP_KEY'\n  see erp.py, line 2\n",
        ),
        (
            ("doctor",),
            {"TURNO_HANDLERS": "erp:HANDLERS"},
            FAILS,
            "TURNO_HANDLERS=erp:HANDLERS: KeyError: 'ERP_KEY'; correct erp.py, line 2\n",
        ),
        (
            ("work",),
            {"TURNO_HANDLERS": "turno.contrib.django.handlers:discover", "DJANGO_SETTINGS_MODULE": "erp"},
            FAILS,
            "TURNO_HANDLERS=turno.contrib.django.handlers:discover: KeyError: 'ERP_KEY'\n  see erp.py, line 2\n",
        ),
        (
            ("serve",),
            {"TURNO_HANDLERS": "handlers:build_registry", "TURNO_WEB_APP": "erp:create_app"},
            FACTORY,
            "TURNO_WEB_APP=erp:create_app: RuntimeError: no cache\n",
        ),
    ],
    ids=["handlers", "doctor", "django", "application"],
)
def test_failing_import_is_refused_with_its_line(
    command: tuple[str, ...], variables: dict[str, str], content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "erp.py").write_text(content)
    reply = run(tmp_path, "-m", "turno.commands.main", *command, **NOWHERE, **variables)
    assert reply.returncode == 1
    assert message in reply.stdout + reply.stderr
    assert "Traceback" not in reply.stderr


def test_consume_without_pika_names_the_extra(tmp_path: Path) -> None:
    without_pika = "import sys; sys.modules['pika'] = None; from turno.commands.main import main; main()"
    refused = run(
        tmp_path, "-c", without_pika, "work", "--from-broker", TURNO_HANDLERS="handlers:build_registry", **NOWHERE
    )
    assert refused.returncode == 1
    assert refused.stderr.endswith(
        "`turno work --from-broker` needs pika: install turno-jobs with its extra `rabbitmq`\n"
    )


@pytest.mark.parametrize(
    ("options", "message"), [(["--once", "--from-broker"], "exclude each other"), ([JOB], "JOB_ID needs --once")]
)
def test_contradictory_options_of_work_are_refused(options: list[str], message: str) -> None:
    reply = CliRunner().invoke(main, ["work", *options])
    assert (reply.exit_code, message in reply.stderr) == (2, True)
