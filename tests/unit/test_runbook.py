"""The references of the on-call page exist: each alert, command, option, page, metric and message."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from turno.commands.main import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUNBOOK = (DOCS / "runbook.md").read_text(encoding="utf-8")
ALERTS = (DOCS / "monitoring.md").read_text(encoding="utf-8")
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("runbook.md", "monitoring.md", "operations.md")}
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
COMMAND = re.compile(r"(?<![\w/.-])turno ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?([^`#\n|]*)")
# Sentences of other programs, and queries, which no file of ours has.
OTHERS = re.compile(
    r"turno |systemctl|rabbitmq|journalctl|psql|SELECT|import\b|ps\b|-- |[A-Z_]+=|GET |PATCH |POST |DELETE |lacks …"
)


def source() -> str:
    files = [path for path in (ROOT / "turno").rglob("*") if path.suffix in {".py", ".sql"}]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def rows(part: str) -> dict[str, list[str]]:
    """Return the cells of the table below a heading, by the first code in a row."""
    lines = ALERTS.partition(f"### {part}\n")[2].partition("\n### ")[0].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    return {first.strip("`"): values for first, *values in cells if first != "`alert`"}


def test_alerts_of_turno_are_exactly_the_explained_ones() -> None:
    files = [ROOT / "turno/store/operator/troubles.py", *(ROOT / "turno/capabilities").rglob("*.py")]
    troubles = "\n".join(file.read_text(encoding="utf-8") for file in files)
    kinds = {"lacks worker", "lacks type", "lacks version", "lacks queue", "long wait", "failures", "failed items"}
    kinds |= set(re.findall(r'yield Trouble\(\s*[^()]*?"([a-z]+(?: [a-z]+)?)", (?:values|\{)', troubles))
    assert rows("Turno's own").keys() == kinds - {"paused tenant"}  # an operator's decision raises no alert


def test_alerts_of_the_log_are_exactly_the_explained_ones() -> None:
    assert rows("In the log alone").keys() == set(re.findall(r'\{"alert": "([a-z]+)"', source()))


def test_rules_of_prometheus_are_exactly_the_explained_ones() -> None:
    rules = (ROOT / "deploy" / "prometheus" / "turno.rules.yml").read_text(encoding="utf-8")
    named = re.findall(r"^\s*- alert: (\w+)$", rules, re.MULTILINE)
    assert rows("Of Prometheus").keys() == set(named)
    assert len(named) == len(set(named))


@pytest.mark.parametrize("part", ["Turno's own", "In the log alone", "Of Prometheus"])
def test_alert_has_meaning_remedy_and_harmless_case(part: str) -> None:
    assert [alert for alert, cells in rows(part).items() if len(cells) != 3 or not all(cells)] == []


def test_symptom_has_place_remedy_and_reason() -> None:
    symptoms = re.findall(r"^### (.+)\n\n((?:(?!#).*\n)*)", RUNBOOK, re.MULTILINE)
    assert len(symptoms) > 30
    for symptom, text in symptoms:
        assert re.findall(r"^- \*\*(\w+):\*\*", text, re.MULTILINE) == ["Look", "Do", "Why"], symptom


def spans(text: str) -> Iterator[str]:
    return (span for span in SPAN.findall(text))


def test_the_messages_that_it_quotes_are_in_the_code() -> None:
    code = re.sub(r"%s|%g|\{[^{}]*\}", "…", re.sub(r'"\s*\n?\s*f?"', "", source()))
    quoted = [span for span in spans(RUNBOOK) if " " in span and not OTHERS.match(span) and "<" not in span]
    assert len(quoted) > 15
    for message in quoted:
        for piece in message.split("…"):
            assert piece.strip("; ") in code, message


@pytest.mark.parametrize("page", PAGES)
def test_the_options_of_the_commands_exist(page: str) -> None:
    context = click.Context(main)
    seen = 0
    for name, further, arguments in COMMAND.findall(PAGES[page]):
        command = main.get_command(context, name)
        if isinstance(command, click.Group) and further:
            command = command.get_command(context, further)
        assert command is not None, name
        known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        wanted = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", arguments))
        assert wanted - known == set(), f"turno {name} {further}"
        seen += len(wanted)
    assert seen > 2


def test_the_operators_pages_and_metrics_that_are_named_exist() -> None:
    modules = (ROOT / "turno").rglob("*.py")
    pages = {result for path in modules for result in re.findall(r'page\("(/admin[^"]*)"', path.read_text("utf-8"))}
    metrics = set(re.findall(r"^\| `(turno_\w+)", (DOCS / "monitoring.md").read_text(encoding="utf-8"), re.MULTILINE))
    for text in PAGES.values():
        assert {span for span in spans(text) if re.fullmatch(r"/admin[a-z/]*", span)} <= pages
        assert {span for span in spans(text) if re.fullmatch(r"turno_[a-z_]+", span)} <= metrics
