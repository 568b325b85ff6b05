"""The odd handlers in a worker that gives a child four jobs at a time, however long they take; for workers only."""

from __future__ import annotations

import os

from app.work import supervisor
from app.work.turn_lengths import TurnLengths
from tests.odd_handlers import REGISTRY as REGISTRY  # noqa: PLC0414 - by this name it is looked up


def four(_lengths: TurnLengths, _job_type: str) -> int:
    return 4


TurnLengths.of = four  # type: ignore[assignment,method-assign]
supervisor.LONG = float(os.environ["LONG"])
