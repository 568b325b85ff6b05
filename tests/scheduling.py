"""Which test worker runs what, and when: a file is one worker's, the long files start first.

Mutants need nothing of one another, so each goes to whichever worker is free. Tests of faults wait most of the time and
mutants hardly ever: half of the mutants run between those, so that no core is idle, and half fill the end of the run.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import coerce_node_id

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

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
    """Give each test a name of its own; put what takes longest first when several workers share a run."""
    for item in items:
        # Schemathesis tells its operations apart by `name` alone: of those, xdist would run one for all.
        if not item.nodeid.endswith(item.name):
            item._id = coerce_node_id(f"{item.nodeid.rpartition('::')[0]}::{item.name}")
    if len({item.nodeid for item in items}) < len(items):
        raise pytest.UsageError("two tests have one name: only one of them would be run")
    # `workerinput` is how a worker of pytest-xdist is known.
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _turn(item.nodeid))
        items[:] = between_those_that_wait(items)


def between_those_that_wait(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return them with half of the mutants evenly between the files whose tests wait most of the time."""
    mutants = [item for item in items if item.nodeid.startswith(ALONE)]
    files = [list(tests) for _, tests in groupby(items[: len(items) - len(mutants)], key=_file)]
    waiting = sum(_file(tests[0]).startswith(WAITING) for tests in files)
    share = len(mutants) // 2 // max(1, waiting)
    ordered: list[pytest.Item] = []
    for tests in files:
        ordered += tests
        if _file(tests[0]).startswith(WAITING):
            ordered += mutants[:share]
            del mutants[:share]
    return ordered + mutants


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _turn(nodeid: str) -> int:
    if nodeid.startswith(ALONE):
        return len(LONG_FIRST) + 1
    return next((turn for turn, start in enumerate(LONG_FIRST) if nodeid.startswith(start)), len(LONG_FIRST))
