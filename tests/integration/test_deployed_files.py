"""The files of deploy/ are used unchanged: the crontab's line is run, the units are read as systemd reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.installation import ROOT, ExampleInstallation

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
# Each limits the effects of a handler, which runs as the unit's user, on the host.
HARDENING = {
    "User": "turno",
    "EnvironmentFile": "/etc/turno/turno.env",
    "TasksMax": "512",
    "OOMPolicy": "continue",
    "LimitCORE": "0",
    "UMask": "0077",
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectProc": "invisible",
    "RestrictNamespaces": "yes",
    "PrivateMounts": "yes",
    # Of the calls that @system-service, the line before, allows.
    "SystemCallFilter": "~@privileged",
}


def as_root_s_cron(command: str, settings: Path, log: Path) -> str:
    """The line's command on this machine: the same words, with another user and folder."""
    replacements = {
        "cd /opt/turno": f"cd {ROOT}",
        "setpriv --reuid=turno --regid=turno --init-groups .venv/bin/turno": f"{sys.executable} -m turno.commands.main",
        "/etc/turno/turno.env": str(settings),
        "/var/log/turno/cleanup.log": str(log),
    }
    for there, word in replacements.items():
        assert command.count(there) == 1, there
        command = command.replace(there, word)
    return command


def test_crontab_line_runs_passes_without_shell_settings(example: ExampleInstallation, tmp_path: Path) -> None:
    settings, log, executed = tmp_path / "turno.env", tmp_path / "cleanup.log", tmp_path / "executed"
    # The tests' own address has an & in it, as `?sslmode=verify-full&sslrootcert=…` does.
    assert "&" in example.url
    given = {
        "DATABASE_URL": example.url,
        "TURNO_MASTER_KEY": example.environment["TURNO_MASTER_KEY"],
        "X": f"$(touch {executed})`id`",
    }
    settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()), encoding="utf-8")
    (line,) = [line for line in (DEPLOY / "crontab").read_text().splitlines() if not line.startswith("#")]
    *_, user, command = line.split(maxsplit=6)
    assert user == "root"
    bare = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    done = subprocess.run(
        ["sh", "-c", as_root_s_cron(command, settings, log)],
        env=bare | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "rescued" in log.read_text()
    assert not executed.exists()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_gives_handlers_no_more_than_they_need(unit: Path) -> None:
    lines = [line.partition("=") for line in unit.read_text().splitlines() if not line.startswith(("#", "["))]
    service = {name: value for name, _, value in lines}
    assert HARDENING.items() <= service.items()
    assert service["MemoryMax"].endswith("G")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_a_unit_well_confined(unit: Path, systemd_analyze: Path) -> None:
    reply = subprocess.run(
        [systemd_analyze, "security", "--offline=true", "--no-pager", "--threshold=14", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 0, reply.stdout


@pytest.mark.parametrize(
    ("unit", "program"), [("pool@", "work --queues %i"), ("consume", "work --from-broker"), ("maintain", "maintain")]
)
def test_notify_units_wait_for_ready_and_alive(unit: str, program: str) -> None:
    lines = (DEPLOY / f"turno-{unit}.service").read_text().splitlines()
    assert f"ExecStart=/opt/turno/.venv/bin/turno {program}" in lines
    assert {"Type=notify", "NotifyAccess=main", "WatchdogSec=60"} <= {*lines}


def test_passwords_of_the_broker_s_users_stand_in_no_argument(tmp_path: Path) -> None:
    stand_in = tmp_path / "rabbitmqctl"
    stand_in.write_text('#!/bin/sh\necho "$@"\n[ "$1" != add_user ] || sed "s/^/read: /"\n')
    stand_in.chmod(0o700)
    passwords = {f"TURNO_{side}_PASSWORD": f"secret of {side}" for side in ("SETUP", "RELAY", "CONSUMER")}
    reply = subprocess.run(
        ["sh", str(DEPLOY / "rabbitmq" / "permissions.sh")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **passwords},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert [line for line in reply if "secret" in line] == [f"read: {password}" for password in passwords.values()]
