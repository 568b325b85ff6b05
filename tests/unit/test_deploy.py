"""docs/monitoring.md describes the queries of deploy/, and a test compares it with /metrics."""

import json
import re
import subprocess
from pathlib import Path

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
