"""docs/monitoring.md describes the queries of deploy/, and a test compares it with /metrics."""

import grp
import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
METRIC = re.compile(r"\bturno_[a-z_]+")


def described() -> set[str]:
    return set(METRIC.findall((ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")))


def requested_for(expressions: list[str]) -> set[str]:
    return {name.removesuffix("_bucket") for expression in expressions for name in METRIC.findall(expression)}


def test_the_rules_ask_for_metrics_that_exist() -> None:
    rules = (ROOT / "deploy" / "prometheus" / "turno.rules.yml").read_text(encoding="utf-8")
    requested = requested_for([rules])
    assert len(requested) > 5
    assert requested - described() == set()


def test_prometheus_reads_the_rules(promtool: Path) -> None:
    rules = ROOT / "deploy" / "prometheus" / "turno.rules.yml"
    reply = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert reply.returncode == 0, reply.stderr


def test_dashboard_uses_existing_metrics() -> None:
    board = json.loads((ROOT / "deploy" / "grafana" / "turno.json").read_text(encoding="utf-8"))
    requested = requested_for([target["expr"] for panel in board["panels"] for target in panel["targets"]])
    assert len(requested) > 10
    assert requested - described() == set()


def test_daily_rotation_keeps_an_open_file_in_use(logrotate: Path, tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "logrotate").read_text(encoding="utf-8")
    folder = re.search(
        r"^# +TURNO_RUN_FOLDER=(\S+)$", (ROOT / "deploy" / "turno-web.service").read_text(), re.MULTILINE
    )
    assert folder is not None
    assert f"{folder[1]}/workers.log {{" in text
    user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    config, log = tmp_path / "turno", tmp_path / "workers.log"
    for path, substitute in (
        ("/var/log/turno", f"{tmp_path}/cron"),
        (folder[1], f"{tmp_path}"),
        ("turno turno", f"{user} {group}"),
    ):
        text = text.replace(path, substitute)
    config.write_text(text, encoding="utf-8")
    config.chmod(0o644)
    with log.open("a", encoding="utf-8") as inherited:
        inherited.write("before\n")
        inherited.flush()
        command = [f"{logrotate}", "--force", f"--state={tmp_path}/state", f"{config}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        inherited.write("after\n")
    (rotated,) = tmp_path.glob("workers.log-*")
    assert (rotated.read_text(), log.read_text()) == ("before\n", "after\n")


@pytest.mark.deep
def test_ansible_reads_the_playbook_of_the_broker(tmp_path: Path) -> None:
    playbook = ROOT / "deploy" / "rabbitmq" / "cluster.yml"
    done = subprocess.run(
        [
            Path(sys.executable).parent / "ansible-playbook",
            "--syntax-check",
            "--inventory",
            "broker1,broker2,",
            playbook,
        ],
        env={**os.environ, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    scripts = re.findall(r"ansible.builtin.script: (\S+)", playbook.read_text(encoding="utf-8"))
    assert {"permissions.sh", "policies.sh", "health.sh"} == set(scripts)
    assert all((playbook.parent / script).exists() for script in scripts)
    (configuration,) = [
        task["ansible.builtin.copy"]["content"]
        for play in yaml.safe_load(playbook.read_text(encoding="utf-8"))
        for task in play["tasks"]
        if "rabbitmq.conf" in str(task.get("ansible.builtin.copy"))
    ]
    assert "lookup('file', 'rabbitmq.conf')" in configuration
