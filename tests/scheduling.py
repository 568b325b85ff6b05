"""Which test worker runs what, and when: a file is one worker's, the long files start first.

Mutants need nothing of one another, so each goes to whichever worker is free, and they fill the end of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import coerce_node_id

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

ALONE = "tests/faults/test_mutants.py"
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


def _turn(nodeid: str) -> int:
    if nodeid.startswith(ALONE):
        return len(LONG_FIRST) + 1
    return next((turn for turn, start in enumerate(LONG_FIRST) if nodeid.startswith(start)), len(LONG_FIRST))
