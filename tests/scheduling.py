"""The schedule of tests on xdist workers: a file is one worker's, the long files start first.

Mutants need nothing of one another, so each goes to whichever worker is free. Tests of faults, commands and pages
mostly wait for processes; all remaining tests compute. Most computing files run between the waiting files, so that some
workers wait and some compute all the time, and the quickest files end the run.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, cast

import pytest
from _pytest.nodeid import coerce_node_id

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

    from tests.mutants.mutant import Mutant

ALONE = "tests/faults/test_mutants.py"
WAITING = ("tests/faults/", "tests/acceptance/", "tests/browser/")
LONG_FIRST = ("tests/faults/test_nemesis", "tests/faults/", "tests/acceptance/", "tests/browser/", "tests/integration/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Hand out whole files, and mutants one by one."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - a mutant's run has no xdist

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if nodeid.startswith(ALONE) else str(super()._split_scope(nodeid))

    # Else the files with the most tests would come first, and these are the quickest.
    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test a unique name; put the longest first when several workers share a run."""
    for item in items:
        # Schemathesis distinguishes its operations by `name` alone: xdist would run only one of them.
        if not item.nodeid.endswith(item.name):
            item._id = coerce_node_id(f"{item.nodeid.rpartition('::')[0]}::{item.name}")
    if len({item.nodeid for item in items}) < len(items):
        raise pytest.UsageError("two tests have one name: only one of them would be run")
    # `workerinput` is how a worker of pytest-xdist is known.
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)
        items[:] = between_those_that_wait(items)


def between_those_that_wait(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return them with four fifths of the computing tests evenly between the files that mostly wait."""
    units = [list(tests) for _, tests in groupby(items, key=_unit)]
    waiting = [tests for tests in units if tests[0].nodeid.startswith(WAITING) and not _is_mutant(tests[0])]
    computing = [tests for tests in units if tests not in waiting]
    share = len(computing) * 4 // 5 // max(1, len(waiting))
    ordered: list[list[pytest.Item]] = []
    for tests in waiting:
        ordered += [tests, *computing[:share]]
        del computing[:share]
    return [item for tests in (*ordered, *computing) for item in tests]


def _is_mutant(item: pytest.Item) -> bool:
    return item.nodeid.startswith(ALONE)


def _unit(item: pytest.Item) -> str:
    """Return the unit that one worker runs from its first test to its last."""
    return item.nodeid if _is_mutant(item) else item.nodeid.partition("::")[0]


def _turn(item: pytest.Item) -> int:
    if isinstance(item, pytest.Function) and _is_mutant(item):
        # Without their guard tests that wait do so for long: none of them is to be the last.
        waits = cast("Mutant", item.callspec.params["mutant"]).tests[0].startswith(WAITING)
        return len(LONG_FIRST) + (1 if waits else 2)
    return next((turn for turn, start in enumerate(LONG_FIRST) if item.nodeid.startswith(start)), len(LONG_FIRST))
