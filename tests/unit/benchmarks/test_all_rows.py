import re
from pathlib import Path

from benchmarks.__main__ import main
from benchmarks.all_rows import Measured, Row, Server, chart, page
from benchmarks.benchmark import NAMES, Options, benchmark_named
from benchmarks.report import Report

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "benchmarks.md"


def measured(*, others: float = 0.0) -> Measured:
    report = Report("dispatch", "ms")
    samples = {"floor": [1.0, 1.0], "ours": [2.0, 4.0], "rival": [2.0, 2.0]}
    report.add(samples)
    report.compare(samples, "ours", "floor", at_most=2.0)
    report.compare(samples, "ours", "rival", at_most=2.0)
    report.wanted["ours p99"] = 3.5
    report.facts |= {"rival": "1.2.3", "third": "not installed: no network"}
    report.facts |= {"per job": {"ours": {"WAL bytes": 1234.5}}, "jobs/s": {"ours": 500}}
    return Measured(Row("a job", "dispatch", ("rival", "third", "fourth")), report, others)


def written(item: Measured) -> list[str]:
    return page([item], Server(2, "3.11", "18.6"), Options(quick=True)).splitlines()


def test_a_line_states_figure_goal_and_its_end() -> None:
    lines = written(measured())
    assert "|  | ours | 3 | 4 |  |  |" in lines
    assert "|  | ours / floor | 3 x |  | 2 | **no** |" in lines
    assert "|  | ours / rival | 1.5 x |  | 2 | yes |" in lines
    assert "|  | ours p99 | 4 |  | 3.5 | **no** |" in lines
    assert "| ours | 500 | 1,234 |" in lines


def test_a_peer_without_a_figure_has_a_line() -> None:
    lines = written(measured())
    assert "|  | peer rival: 1.2.3 |  |  |  |  |" in lines
    assert "|  | peer third: not installed: no network |  |  |  |  |" in lines
    assert any(line.startswith("|  | peers without a figure") and "fourth" in line for line in lines)


def test_a_row_of_a_loaded_machine_is_marked() -> None:
    assert any(line.startswith("| **a job** |") for line in written(measured()))
    loaded = written(measured(others=1.26))
    assert any(line.startswith("| **a job \u2020** | `dispatch`, others used 1.3 processors |") for line in loaded)
    assert any("up to 1.3 processors" in line for line in loaded)


def test_the_chart_has_a_bar_for_each_goal() -> None:
    assert chart([measured()]).count("<rect") == 3


def test_the_page_names_each_benchmark() -> None:
    table = PAGE.read_text(encoding="utf-8")
    commands = [f"| `python -m benchmarks {name}` | {benchmark_named(name).about} |" for name in NAMES]
    assert [line for line in commands if line not in table] == []


def test_each_documented_command_exists() -> None:
    options = {name for parameter in main.params for name in parameter.opts}
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    commands = [
        command.split()
        for page in pages
        for command in re.findall(r"python -m benchmarks ([^`|\n\[]+)", page.read_text(encoding="utf-8"))
    ]
    assert len(commands) > len(NAMES)
    assert [words for words in commands if words[0] not in NAMES or not set(words[1:]) <= options] == []
