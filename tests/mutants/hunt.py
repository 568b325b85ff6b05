"""Take a mutant's guard away and see whether its tests notice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from tests.mutants.mutant import GuardNotFound, Mutant
from tests.mutants.short_waits import CUT_SHORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.prepared_checkout import Ended, PreparedCheckout


# A test that was only too slow has noticed nothing.
TIMED_OUT = "from pytest-timeout"


class Fate(StrEnum):
    """Killed: its tests failed, as they should. Broken: without a verdict, for example because nothing ran."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fate of one mutant, in seconds, and pytest's output."""

    mutant: Mutant
    fate: Fate
    seconds: float
    output: str

    @property
    def line(self) -> str:
        """Return the verdict in one line."""
        return f"{self.fate:<8} {self.seconds:5.1f} s  {self.mutant.name}: {' '.join(self.mutant.tests)}"


def hunt(mutant: Mutant, prepared: PreparedCheckout) -> Verdict:
    """Run the mutant's tests one after another without its guard; every one of them must fail.

    A run without a verdict, for example because the machine was too crowded for it to start, is repeated once.
    """
    began = monotonic()
    fate, output = Fate.KILLED, ""
    try:
        for test in mutant.tests:
            with prepared.without_guard(mutant):
                ended = prepared.run([test])
                if _fate(ended) is Fate.BROKEN:
                    ended = prepared.run([test])
            if _fate(ended) is Fate.KILLED and CUT_SHORT in ended.output and what_fails([test], prepared):
                with prepared.without_guard(mutant):
                    ended = prepared.run([test], whole_waits=True)
            fate, output = _fate(ended), f"{ended.output}\npytest's exit status: {ended.status}"
            if fate is not Fate.KILLED:
                break
    except GuardNotFound as error:
        fate, output = Fate.BROKEN, str(error)
    return Verdict(mutant, fate, monotonic() - began, output)


def _fate(ended: Ended) -> Fate:
    match ended.status:
        case pytest.ExitCode.TESTS_FAILED if TIMED_OUT not in ended.output:
            return Fate.KILLED
        case pytest.ExitCode.OK:
            return Fate.SURVIVED
        case _:
            return Fate.BROKEN


def what_fails(tests: Sequence[str], prepared: PreparedCheckout) -> str:
    """Run these tests with every guard in place; return pytest's words if they do not all pass.

    Waits are short in these runs, so tests may fail on a crowded machine: they are run again before they count.
    """
    for _ in range(2):
        ended = prepared.run(tests)
        if ended.status == pytest.ExitCode.OK:
            return ""
    return ended.output
