"""Every promise of the model holds in all states; without a guard some promise fails."""

from pathlib import Path

import pytest

from tests.model.names import GUARDS
from tests.model.search import search

# Each with two workers. Together the searches of these events take about a minute on an idle machine with two cores.
EVENTS: dict[str, dict[str, int]] = {
    "deaths of children and workers": {"DEATHS": 1},
    "lost replies": {"BREAKS": 1},
    "errors, cancelled and retried jobs": {"COMMANDS": 1, "ERRORS": 1, "CRASHES": 0},
    "cancelled jobs of dead workers": {"COMMANDS": 1, "DEATHS": 1, "CRASHES": 1},
    "cut-over": {"CUTOVER": 1, "DEATHS": 1, "CRASHES": 1},
    "restart of the server": {"SERVER": 1, "PRESENT": 5},
    "repeated request": {"SERVER": 1, "PRESENT": 4, "REQUESTS": 1, "CRASHES": 1},
    "failover with lost commits": {"SERVER": 2, "PRESENT": 5, "CRASHES": 1},
}
# The events by which the model without the guard finds a promise that fails.
WITHOUT: dict[str, dict[str, int]] = {
    "TOKEN_OF_UNCLAIM": {"DEATHS": 1},
    "TOKEN_OF_FINISH": {"DEATHS": 1},
    "WHOLE_BATCH": {"DEATHS": 1},
    "TOKEN_OF_HOLD": {"DEATHS": 1},
    "TOKEN_OF_RESCUE": {"DEATHS": 1},
    "RESCUE_TASK": {"DEATHS": 1},
    "SILENT_WORKER": {"DEATHS": 1},
    "READY_TICKET": {"CUTOVER": 1},
    "WORKER_HOLD": {"DEATHS": 1},
    "FRESH_TOKEN": {"SERVER": 1, "PRESENT": 5},
    "HELD_CLAIMS": {"BREAKS": 1},
    "SESSION_OF_HOLD": {"BREAKS": 1},
    "SESSION_OF_FINISH": {"BREAKS": 1},
    "LOCK_OF_HELD": {"BREAKS": 1},
    "CLAIMED_AT_CANCEL": {"COMMANDS": 1},
    "ENDED_TO_RETRY": {"COMMANDS": 1, "ERRORS": 1},
    "ONE_SUCCESSOR": {"COMMANDS": 1, "ERRORS": 1},
    "KEPT_CHECKPOINT": {"COMMANDS": 1, "ERRORS": 1},
    "DURABLE_COMMIT": {"SERVER": 1, "PRESENT": 4},
    "DURABLE_REPLAY": {"SERVER": 1, "PRESENT": 4, "REQUESTS": 1},
    "SERVER_REPLACED": {"SERVER": 1, "PRESENT": 4},
    "REPUBLISHED": {"CUTOVER": 1},
    "MOVED_UNSERVED": {"CUTOVER": 1},
}


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_every_promise_holds_in_all_states(events: dict[str, int], spin: Path, tmp_path: Path) -> None:
    assert search(tmp_path, spin, events).violated is None


def test_every_guard_is_removed_in_turn() -> None:
    assert WITHOUT.keys() == GUARDS


@pytest.mark.parametrize("guard", WITHOUT)
def test_without_a_guard_a_promise_fails(guard: str, spin: Path, tmp_path: Path) -> None:
    settings: dict[str, int | str] = {"CRASHES": 1, **WITHOUT[guard], "WITHOUT": guard}
    assert search(tmp_path, spin, settings, optimise="-O0").violated is not None
