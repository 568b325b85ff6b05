import os
import re
import signal
import subprocess
import sys
from pathlib import Path

PASS_THREE_TIMES = "from turno.crash_points import reach\nfor _ in range(3): reach('here')\nprint('alive')"


def run(spec: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TURNO_CRASH_AT"}
    if spec is not None:
        environment["TURNO_CRASH_AT"] = spec
    return subprocess.run(
        [sys.executable, "-c", PASS_THREE_TIMES], env=environment, capture_output=True, text=True, check=False
    )


def test_unset_a_point_is_free() -> None:
    assert run(None).stdout == "alive\n"


def test_another_point_is_passed() -> None:
    assert run("elsewhere").stdout == "alive\n"


def test_a_named_point_ends_the_process() -> None:
    assert run("here").returncode == -signal.SIGKILL


def test_only_the_nth_passage_ends_it() -> None:
    assert run("here:self:3").returncode == -signal.SIGKILL
    assert run("here:self:4").stdout == "alive\n"


def test_every_point_is_documented_and_nothing_else() -> None:
    root = Path(__file__).resolve().parents[2]
    reached = {
        name for path in (root / "turno").rglob("*.py") for name in re.findall(r'reach\("(\w+)"\)', path.read_text())
    }
    page = (root / "docs" / "testing-handlers.md").read_text()
    [listed] = re.findall(r"^A crash point is .*?\(in the\s+child\)", page, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", listed)) == reached
