"""The hunt for mutants distinguishes a test that noticed, a test that did not, and a test that never ran."""

import dataclasses

import pytest

from tests.mutants.__main__ import main
from tests.mutants.hunt import Fate, hunt, what_fails
from tests.mutants.mutant import Mutant
from tests.mutants.prepared_checkout import PreparedCheckout
from turno.testing import processes
from turno.testing.wait import wait_until

pytestmark = pytest.mark.deep

NOTICED = Mutant(
    "four attempts are five",
    "a rule for this test",
    "turno/jobs/outcome.py",
    "if errors + 1 < max_attempts:",
    "if errors < max_attempts:",
    ("tests/unit/jobs/test_outcome.py::test_handler_without_retry_fails_at_first_error",),
)
TOO_SHORT = """
from time import monotonic
from tests.mutants import short_waits
from turno.testing.wait import wait_until
short_waits.LEAST_SECONDS, short_waits.SHARE = 0.1, 0.01  # also ten times as long on a crowded machine it is too short
def test_run_beyond_its_patience():
    end = monotonic() + 2
    assert wait_until(lambda: monotonic() > end, within=8)
"""
UNNOTICED = ("tests/unit/jobs/test_outcome.py::test_reschedule_takes_one_moment_with_its_zone",)


def test_a_test_that_fails_without_the_guard_kills(prepared_checkout: PreparedCheckout) -> None:
    verdict = hunt(NOTICED, prepared_checkout)
    assert verdict.fate is Fate.KILLED, verdict.output
    assert verdict.line.startswith("killed ")


def test_a_test_that_passes_without_the_guard_lets_it_survive(prepared_checkout: PreparedCheckout) -> None:
    assert hunt(dataclasses.replace(NOTICED, tests=UNNOTICED), prepared_checkout).fate is Fate.SURVIVED


def test_each_of_the_named_tests_must_notice(prepared_checkout: PreparedCheckout) -> None:
    both = dataclasses.replace(NOTICED, tests=NOTICED.tests + UNNOTICED)
    assert hunt(both, prepared_checkout).fate is Fate.SURVIVED


@pytest.mark.parametrize(
    "changed",
    [
        {"tests": ("tests/unit/jobs/test_outcome.py::test_that_is_not_there",)},
        {"old": "a guard that is not there"},
        {"old": "return"},
        {"old": "if errors + 1 >= max_attem"},
        {"new": "if errors >="},
        {"new": "if errors >= most_attempts:"},
        {"new": "if errors < max_attempts:\n        from nowhere import anything"},
    ],
    ids=[
        "no such test",
        "no such guard",
        "not one guard",
        "half a word",
        "no Python",
        "no such name",
        "no such module",
    ],
)
def test_run_without_a_result_is_broken(changed: dict[str, object], prepared_checkout: PreparedCheckout) -> None:
    verdict = hunt(dataclasses.replace(NOTICED, **changed), prepared_checkout)  # type: ignore[arg-type]
    assert verdict.fate is Fate.BROKEN, verdict.output


def test_test_failing_with_every_guard_is_reported(prepared_checkout: PreparedCheckout) -> None:
    assert what_fails(NOTICED.tests, prepared_checkout) == ""
    assert "not_there" in what_fails(["tests/unit/test_not_there.py"], prepared_checkout)


def test_a_wait_that_was_too_short_kills_nothing(prepared_checkout: PreparedCheckout) -> None:
    file = prepared_checkout.tree / "tests/unit/test_too_short.py"
    file.write_text(TOO_SHORT)
    try:
        verdict = hunt(dataclasses.replace(NOTICED, tests=("tests/unit/test_too_short.py",)), prepared_checkout)
    finally:
        file.unlink()
    assert verdict.fate is Fate.SURVIVED


def test_a_guard_is_back_after_its_hunt(prepared_checkout: PreparedCheckout) -> None:
    for _ in range(2):
        assert hunt(NOTICED, prepared_checkout).fate is Fate.KILLED
        assert what_fails(NOTICED.tests, prepared_checkout) == ""


def test_nothing_that_a_hunt_has_started_outlives_it(prepared_checkout: PreparedCheckout) -> None:
    left = 'if __import__("subprocess").Popen(["sleep", "3600"], start_new_session=True).pid:'
    before = processes.working_in(prepared_checkout.tree)
    assert hunt(dataclasses.replace(NOTICED, new=left), prepared_checkout).fate is Fate.KILLED
    assert wait_until(lambda: processes.working_in(prepared_checkout.tree) == before, within=20)


def test_unknown_name_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no such name"]) == 2
    assert "no such mutant: no such name" in capsys.readouterr().out
