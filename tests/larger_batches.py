"""The faulty handlers in a worker that gives a child several jobs at once, however long they take; for workers only."""

from __future__ import annotations

import os

from tests.misbehaving_handlers import REGISTRY as REGISTRY  # noqa: PLC0414 - by this name it is looked up
from turno.runner import executor
from turno.worker import child
from turno.worker.sources.polling import PoolSource


def several(_source: PoolSource, _job_type: str) -> int:
    return int(os.environ.get("JOBS", "4"))


if "LONG" in os.environ:  # not in the test's own process
    PoolSource._together = several  # type: ignore[assignment,method-assign]
    child.LONG_SECONDS = float(os.environ["LONG"])
    executor.SHARED_SECONDS = float(os.environ.get("TOGETHER", "0.02"))
