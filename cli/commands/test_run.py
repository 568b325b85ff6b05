"""Run the static checks and the tests, and collect their results."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    "app",
    "benchmarks",
    "cli",
    "handlers",
    "imports",
    "nemesis",
    "reports",
    "tax_authority",
    "tenants",
    "tests",
    "turno",
)
STATIC_CHECKS = {
    "ruff check": ("ruff", "check", "."),
    "ruff format --check": ("ruff", "format", "--check", "."),
    "mypy --strict": ("mypy", "--strict", *ROOMS),
}
FAIL_UNDER = 85
TESTS_FAILED = 1  # pytest's exit status for failed tests and nothing worse
FEW = 12
WAITING_WORKERS = 4  # of the whole suite, beside one that computes for each core; see tests/scheduling.py
SLOWEST = 40  # number of the slowest tests in the summary of the whole suite
CLOSING_LINE = re.compile(r"^=+ .*\bin \d+(\.\d+)?s.* =+$")
# Names of tests may have spaces; the reason follows after a dash.
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+\.py::.+?)(?: - .*)?$")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(kw_only=True)
class Report:
    """The failures of a run, in order of time, and pytest's closing line."""

    failures: list[str] = field(default_factory=list)
    closing_line: str = ""


def run_static_checks(report: Report) -> None:
    """Run every check, each under its name, and record the failures."""
    for name, arguments in STATIC_CHECKS.items():
        print(f"--- {name}", flush=True)
        if subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, check=False).returncode != 0:
            report.failures.append(name)


@contextmanager
def tests_compiled() -> Iterator[None]:
    """Have one pytest compile all tests meanwhile: in a fresh checkout each of its workers would, at the same time."""
    collect = (sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider")
    nowhere = subprocess.DEVNULL  # the test run reports errors of collection
    with subprocess.Popen(collect, cwd=ROOT, stdout=nowhere, stderr=nowhere, env=_with_bytecode(os.environ)):
        yield


def run_tests(
    report: Report, *, left_out: Sequence[str], arguments: Sequence[str], whole: bool, coverage: bool = False
) -> None:
    """Run pytest, with `coverage` under it: the tests must then reach FAIL_UNDER per cent of the lines and branches.

    In the whole suite a few failed tests run once more, alone. A test that passes then is flaky: a failure, too.
    """
    print("--- pytest", flush=True)
    program = ("coverage", "run", "-m", "pytest") if coverage else ("pytest",)
    if coverage:
        _coverage("erase")
    command = [sys.executable, "-u", "-m", *program]
    ended = run_and_listen([*command, *pytest_arguments(left_out, arguments, whole=whole)])
    if whole and ended.status == TESTS_FAILED and few_failed(ended.closing_line):
        first, ended = ended, _run_alone(command, ended.closing_line)
        flaky = [name for name in first.failed if name not in ended.failed]
        report.failures += [f"FLAKY: {name} failed in the suite and passed alone" for name in flaky]
    report.closing_line = ended.closing_line
    if ended.status != 0:
        report.failures.append(f"pytest (exit status {ended.status})")
    if coverage:
        _coverage("combine", "--quiet")
        if _coverage("report", f"--fail-under={FAIL_UNDER}") != 0:
            report.failures.append(f"coverage of at least {FAIL_UNDER} %")


def few_failed(closing_line: str) -> bool:
    """Say whether a run failed in so few tests that a crowded machine may be why."""
    counts = re.findall(r"\b(\d+) (?:failed|errors?)\b", closing_line)
    return 0 < sum(map(int, counts)) <= FEW


def _run_alone(command: Sequence[str], first: str) -> Ended:
    """Run the few failed tests once more, one after another: a crowded machine fails some that pass alone."""
    print(f"--- pytest, once more and alone, the failed tests of: {first.strip('= ')}", flush=True)
    return run_and_listen([*command, "-v", "-n", "0", "--last-failed", "--last-failed-no-failures=none"])


def pytest_arguments(left_out: Sequence[str], arguments: Sequence[str], *, whole: bool = False) -> list[str]:
    """Return pytest's arguments: how many workers, without the markers left out, then the caller's own."""
    without = ["-m", " and ".join(f"not {marker}" for marker in left_out)] if left_out else []
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    # Many tests wait for processes, most of all in the whole suite: more workers than cores keep the cores busy.
    workers = (os.cpu_count() or 1) + (WAITING_WORKERS if whole else 1)
    durations = ["--durations", str(SLOWEST)] if whole else []
    return ["-n", str(workers), "--dist", "loadfile", *durations, *colour, *without, *arguments]


class Ended(NamedTuple):
    """How a pytest run ended: its exit status, its closing line, and the tests that its summary calls failed."""

    status: int
    closing_line: str
    failed: list[str]


def run_and_listen(command: Sequence[str]) -> Ended:
    """Run `command`, show its output as it comes, and return how it ended."""
    captured = bytearray()
    # A separate process group: Ctrl-C reaches it once, and this process waits until it has ended its servers.
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, process_group=0, env=_with_bytecode(os.environ)
    ) as process:
        output = cast("IO[bytes]", process.stdout)
        while True:
            try:
                chunk = os.read(output.fileno(), 65536)
            except KeyboardInterrupt:
                os.killpg(process.pid, signal.SIGINT)
                continue
            if not chunk:
                break
            captured += chunk
            sys.stdout.write(chunk.decode(errors="replace"))
            sys.stdout.flush()
    output_text = captured.decode(errors="replace")
    return Ended(process.returncode, closing_line_of(output_text), failed_in(output_text))


def _with_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Let the interpreters that tests start find every module compiled, despite the shell's setting."""
    return {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


def closing_line_of(output: str) -> str:
    """Return the last line of `output` in which pytest sums up, or an empty one."""
    lines = (COLOUR.sub("", line).strip() for line in reversed(output.splitlines()))
    return next((line for line in lines if CLOSING_LINE.match(line)), "")


def failed_in(output: str) -> list[str]:
    """Return the tests that the summary in `output` names as failed or in error, in its order."""
    lines = (FAILED.match(COLOUR.sub("", line)) for line in output.splitlines())
    return list(dict.fromkeys(line[1] for line in lines if line))


def _coverage(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, check=False).returncode
