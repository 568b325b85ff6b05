import json

from benchmarks.report import Report


def report() -> Report:
    report = Report("example", "ms")
    samples = {"floor": [1.0, 1.0], "ours": [2.0, 2.00001]}
    report.add(samples)
    report.compare(samples, "ours", "floor", at_most=1.5)
    report.facts["jobs"] = 2
    return report


def test_json_line_has_figures_ratios_wishes_and_facts() -> None:
    line = report().json(quick=True)
    assert "\n" not in line
    result = json.loads(line)
    assert result["figures"]["floor"] == {
        "n": 2,
        "p10": 1.0,
        "median": 1.0,
        "p99": 1.0,
        "low": 1.0,
        "high": 1.0,
        "iqr": 0.0,
    }
    assert result["ratios"] == {"ours / floor": {"median": 2.0, "low": 2.0, "high": 2.0, "quiet": 2.0}}
    assert (result["wanted"], result["jobs"], result["quick"]) == ({"ours / floor": 1.5}, 2, True)


def test_ratio_is_printed_beside_its_target() -> None:
    (line,) = (line for line in report().lines() if line.startswith("ours / floor"))
    assert "2.00 x" in line
    assert line.endswith("wanted: at most 1.5")
