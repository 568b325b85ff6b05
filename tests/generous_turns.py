"""The odd handlers in a worker that gives a child four jobs at a time, however long they take; for workers only."""

from __future__ import annotations

import os

from tests.misbehaving_handlers import REGISTRY as REGISTRY  # noqa: PLC0414 - by this name it is looked up
from turno.worker import child
from turno.worker.sources.polling import PoolSource


def four(_source: PoolSource, _job_type: str) -> int:
    return 4


PoolSource._together = four  # type: ignore[assignment,method-assign]
child.LONG = float(os.environ["LONG"])
