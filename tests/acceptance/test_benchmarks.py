"""The benchmarks as commands: what they print, never how long they took."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.__main__ import NAMES

ROOT = Path(__file__).resolve().parents[2]


def benchmarks(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_a_name_they_are_listed_each_with_what_it_measures() -> None:
    listed = [line.split(maxsplit=1) for line in benchmarks()]
    assert [name for name, _ in listed] == list(NAMES)
    assert all(about.endswith(".") for _, about in listed)


def test_a_benchmark_s_last_line_has_its_figures_and_the_ratio_to_its_floor() -> None:
    found = json.loads(benchmarks("dispatch", "--quick", "--json")[-1])
    assert (found["benchmark"], found["unit"], found["quick"]) == ("dispatch", "ms", True)
    assert set(found["figures"]) >= {"floor", "enqueue", "enqueue, quota"}
    for figure in found["figures"].values():
        assert figure["n"] > 0
        assert 0 < figure["low"] <= figure["median"] <= figure["p99"] <= figure["high"]
    ratio = found["ratios"]["enqueue / floor"]
    assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    assert found["pgqueuer"] == "left out: ask for it with --peers"
