"""A request to stop reaches exactly the intended job, and the child begins no recalled job."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from turno.runner.shared_state import SharedState


@pytest.fixture
def shared() -> Iterator[SharedState]:
    before = signal.getsignal(signal.SIGTERM)
    shared = SharedState()
    shared.listen()
    shared.next_batch()
    shared.works(0)
    yield shared
    signal.signal(signal.SIGTERM, before)


def requests_made(shared: SharedState) -> tuple[bool, bool]:
    signal.raise_signal(signal.SIGTERM)
    return shared.requested, shared.overdue


def test_the_time_limit_of_an_attempt_is_its_own(shared: SharedState) -> None:
    shared.name(SharedState.TIME_LIMIT, 1, 0)
    assert requests_made(shared) == (True, True)


@pytest.mark.parametrize("another", ["job", "batch"])
def test_time_limit_of_ended_attempt_spares_the_next(shared: SharedState, another: str) -> None:
    shared.name(SharedState.TIME_LIMIT, 1, 0)
    if another == "batch":
        shared.next_batch()
    shared.works(0 if another == "batch" else 1)
    assert requests_made(shared) == (False, False)


def test_stop_of_a_job_does_not_affect_the_next(shared: SharedState) -> None:
    shared.name(SharedState.TIME_LIMIT, 1, 0)
    requests_made(shared)
    shared.works(1)
    assert (shared.requested, shared.overdue) == (False, False)


def test_a_worker_that_stops_stops_the_next_too(shared: SharedState) -> None:
    shared.name(SharedState.GRACEFUL, 1, 0)
    requests_made(shared)
    shared.works(1)
    assert (shared.requested, shared.overdue) == (True, False)
    assert not shared.begins(2)


def test_a_signal_from_anyone_else_means_the_present_attempt(shared: SharedState) -> None:
    assert requests_made(shared) == (True, False)
    shared.works(1)
    assert (shared.requested, shared.overdue) == (False, False)


def test_recalled_batch_begins_nothing_and_the_next_begins(shared: SharedState) -> None:
    assert (shared.begins(0), shared.begins(1)) == (True, True)
    assert shared.call_back(1) == 1
    assert not shared.begins(2)
    shared.next_batch()
    assert shared.begins(0)


def test_of_a_job_that_both_want_the_child_learns(shared: SharedState) -> None:
    """It has written that it is about to begin it, so the parent leaves it to the child, which then sees the call."""
    shared.begins(0)
    assert (shared.call_back(1), shared.begins(1), shared.furthest(1)) == (0, False, 1)


def test_a_job_that_runs_again_is_no_step_back(shared: SharedState) -> None:
    for job in (0, 1, 2):
        shared.begins(job)
    shared.works(0)
    assert (shared.at_work(1), shared.furthest(1)) == (0, 2)
    shared.rests()
    assert shared.at_work(1) is None


def test_orders_for_one_batch_do_not_affect_another(shared: SharedState) -> None:
    shared.begins(3)
    shared.works(3)
    assert (shared.furthest(2), shared.at_work(2)) == (-1, None)
