from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from cli.commands import test, test_run
from cli.commands.test import DEEP, FAST_RING
from cli.commands.test_run import Ended, Report, closing_line_of, pytest_arguments, run_and_listen
from cli.servers import system_packages
from cli.servers.system_packages import SystemPackage
from turno.commands.main import main

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOSING = "=================== 3 passed, 1 deselected in 61.20s (0:01:01) ==================="
ABSENT = SystemPackage(name="absent-server", marker="absent", programs=("no-such-program",))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments for pytest: first the markers left out, then the caller's arguments."""
    handed: list[list[str]] = []

    def tests(
        report: Report, *, left_out: Sequence[str], arguments: Sequence[str], whole: bool, coverage: bool
    ) -> None:
        handed.extend([list(left_out), list(arguments)])
        assert whole is (arguments == ())
        assert not coverage
        report.closing_line = CLOSING

    # The fast ring runs without the packages of the deep ring.
    monkeypatch.setattr(test, "begin_anew_with_tools", lambda *_, **__: None)
    monkeypatch.setattr(test, "run_static_checks", lambda _: None)
    monkeypatch.setattr(test, "tests_compiled", nullcontext)
    monkeypatch.setattr(test, "run_tests", tests)
    monkeypatch.setattr(system_packages, "missing", lambda *_: [])
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.delenv("CI", raising=False)
    return handed


def test_a_run_in_which_all_is_well_ends_with_the_closing_line(ran: list[list[str]]) -> None:
    result = CliRunner().invoke(main, ["test", "-k", "lock", "tests/unit"])
    assert (result.exit_code, result.output) == (0, f"{CLOSING}\n")
    assert ran == [[], ["-k", "lock", "tests/unit"]]


def test_no_arguments_run_the_fast_ring(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_packages, "missing", lambda *_: [ABSENT])
    monkeypatch.setattr(test, "run_tests", fast := Mock())
    result = CliRunner().invoke(main, ["test"])
    assert result.exit_code == 0, result.output
    assert fast.call_args.kwargs == {"left_out": DEEP, "arguments": FAST_RING, "whole": False, "coverage": False}
    assert "turno test --deep" in result.output
    assert ran == []


def test_a_failure_is_named_and_the_exit_status_is_an_error(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tests(report: Report, **_: object) -> None:
        report.failures, report.closing_line = ["FLAKY: tests/unit/test_a.py::test_b[c d]"], CLOSING

    monkeypatch.setattr(test, "run_tests", tests)
    result = CliRunner().invoke(main, ["test", "--deep"])
    assert result.exit_code == 1
    assert result.output.splitlines() == ["failed: FLAKY: tests/unit/test_a.py::test_b[c d]", CLOSING]
    assert ran == []


@pytest.mark.parametrize("command", [["test", "--deep", "--yes"], ["test", "--deep"]])
def test_missing_package_is_named_and_fails_the_run(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(system_packages, "missing", lambda *_: [ABSENT])
    monkeypatch.setattr(system_packages, "reason_not_to_install", lambda: None)
    monkeypatch.setattr(system_packages, "install", lambda _: False)
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert ran == [["absent"], []]
    why = "apt-get could not install it" if "--yes" in command else "no terminal to confirm"
    assert f"left out: tests that need absent-server ({why}" in result.output
    assert result.output.splitlines()[-1] == CLOSING


def test_tests_that_need_root_are_named_when_left_out(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = CliRunner().invoke(main, ["test", "--deep"])
    assert result.exit_code == 1
    assert ran == [["root"], []]
    assert "failed: left out: tests that need root" in result.output


@pytest.mark.parametrize("answer", ["y", "n"])
def test_terminal_confirms_the_installation(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    absent = [ABSENT]

    def install(packages: Sequence[SystemPackage]) -> bool:
        assert packages == [ABSENT]
        absent.clear()
        return True

    monkeypatch.setattr(system_packages, "missing", lambda *_: list(absent))
    monkeypatch.setattr(system_packages, "reason_not_to_install", lambda: None)
    monkeypatch.setattr(system_packages, "install", install)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(test, "someone_can_answer", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: answer == "y")
    assert list(test.get_ready(yes=False)) == ([] if answer == "y" else ["absent"])


def test_pytest_gets_a_worker_per_core_and_caller_arguments() -> None:
    arguments = pytest_arguments(["rabbitmq", "root"], ["-m", "mine"])
    assert arguments[:4] == ["-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile"]
    assert arguments[-4:] == ["-m", "not rabbitmq and not root", "-m", "mine"]
    whole = pytest_arguments([], [], whole=True)
    assert whole == ["-n", str((os.cpu_count() or 1) + 4), "--dist", "loadfile", "--durations", "40"]


def test_closing_line_is_found_among_colours_and_output() -> None:
    assert closing_line_of(f"== FAILURES ==\n\x1b[32m{CLOSING}\x1b[0m\nCombined data\n") == CLOSING
    assert closing_line_of("== FAILURES ==\n") == ""


def test_output_is_shown_as_it_comes_and_the_status_kept(capsys: pytest.CaptureFixture[str]) -> None:
    failed = "FAILED tests/unit/test_a.py::test_b[c d] - assert 1 == 2"
    ended = run_and_listen([sys.executable, "-c", f"print({failed!r}); print({CLOSING!r}); raise SystemExit(3)"])
    assert ended == (3, CLOSING, ["tests/unit/test_a.py::test_b[c d]"])
    assert CLOSING in capsys.readouterr().out


def test_interpreters_may_keep_compiled_modules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    run_and_listen([sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"])
    assert capsys.readouterr().out == "False\n"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_reaches_pytest_once_and_its_output_is_read() -> None:
    program = (
        "import os, signal\n"
        "try:\n"
        "    os.kill(os.getppid(), signal.SIGINT)\n"
        "    signal.pause()\n"
        f"except KeyboardInterrupt:\n    print({CLOSING!r})\n    raise SystemExit(2)\n"
    )
    assert run_and_listen([sys.executable, "-c", program]) == (2, CLOSING, [])


def test_failing_check_is_recorded_and_the_next_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {"names a module nobody has": ("no_such_module",), "passes": ("timeit", "-n1", "-r1", "pass")}
    monkeypatch.setattr(test_run, "STATIC_CHECKS", checks)
    report = Report()
    test_run.run_static_checks(report)
    assert report.failures == ["names a module nobody has"]
    assert "--- passes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("coverage", "failures"),
    [(True, ["pytest (exit status 1)", "coverage of at least 85 %"]), (False, ["pytest (exit status 1)"])],
)
def test_a_run_under_coverage_must_reach_the_threshold(
    monkeypatch: pytest.MonkeyPatch,
    coverage: bool,  # noqa: FBT001
    failures: list[str],
) -> None:
    monkeypatch.setattr(test_run, "run_and_listen", lambda _: Ended(1, CLOSING, []))
    monkeypatch.setattr(test_run, "_coverage", lambda *words: int("--fail-under=85" in words))
    report = Report()
    test_run.run_tests(report, left_out=[], arguments=[], whole=False, coverage=coverage)
    assert (report.failures, report.closing_line) == (failures, CLOSING)


@pytest.mark.parametrize(
    ("again", "failures"),
    [
        (Ended(1, CLOSING, ["b"]), ["FLAKY: a failed in the suite and passed alone", "pytest (exit status 1)"]),
        (Ended(0, CLOSING, []), [f"FLAKY: {name} failed in the suite and passed alone" for name in "ab"]),
    ],
)
def test_test_failing_once_and_passing_alone_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, again: Ended, failures: list[str]
) -> None:
    runs = iter([Ended(1, "= 2 failed, 900 passed in 61.20s =", ["a", "b"]), again])
    monkeypatch.setattr(test_run, "run_and_listen", lambda _: next(runs))
    report = Report()
    test_run.run_tests(report, left_out=[], arguments=[], whole=True)
    assert (report.failures, report.closing_line) == (failures, CLOSING)
