"""Which job a child is asked to stop is the one that is meant, and it begins none that was called back."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from turno.runner.stop_request import StopRequest


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    before = signal.getsignal(signal.SIGTERM)
    stop = StopRequest()
    stop.listen()
    stop.next_batch()
    stop.works(0)
    yield stop
    signal.signal(signal.SIGTERM, before)


def asked(stop: StopRequest) -> tuple[bool, bool]:
    signal.raise_signal(signal.SIGTERM)
    return stop.requested, stop.overdue


def test_the_time_limit_of_an_attempt_is_its_own(stop: StopRequest) -> None:
    stop.name(StopRequest.TIME_LIMIT, 1, 0)
    assert asked(stop) == (True, True)


@pytest.mark.parametrize("another", ["job", "batch"])
def test_the_time_limit_of_an_attempt_that_has_ended_is_nothing_to_the_next(stop: StopRequest, another: str) -> None:
    stop.name(StopRequest.TIME_LIMIT, 1, 0)
    if another == "batch":
        stop.next_batch()
    stop.works(0 if another == "batch" else 1)
    assert asked(stop) == (False, False)


def test_who_was_asked_before_is_not_asked_for_the_next(stop: StopRequest) -> None:
    stop.name(StopRequest.TIME_LIMIT, 1, 0)
    asked(stop)
    stop.works(1)
    assert (stop.requested, stop.overdue) == (False, False)


def test_a_worker_that_stops_stops_the_next_too(stop: StopRequest) -> None:
    stop.name(StopRequest.GRACEFUL, 1, 0)
    asked(stop)
    stop.works(1)
    assert (stop.requested, stop.overdue) == (True, False)
    assert not stop.begins(2)


def test_a_signal_from_anyone_else_means_the_present_attempt(stop: StopRequest) -> None:
    assert asked(stop) == (True, False)
    stop.works(1)
    assert (stop.requested, stop.overdue) == (False, False)


def test_of_a_batch_that_is_called_back_nothing_more_is_begun_and_of_the_next_all(stop: StopRequest) -> None:
    assert (stop.begins(0), stop.begins(1)) == (True, True)
    assert stop.call_back(1) == 1
    assert not stop.begins(2)
    stop.next_batch()
    assert stop.begins(0)


def test_of_a_job_that_both_want_the_child_learns(stop: StopRequest) -> None:
    """It has written that it is about to begin it, so the parent leaves it to the child, who then sees the call."""
    stop.begins(0)
    assert (stop.call_back(1), stop.begins(1), stop.furthest(1)) == (0, False, 1)


def test_a_job_that_runs_again_is_no_step_back(stop: StopRequest) -> None:
    for job in (0, 1, 2):
        stop.begins(job)
    stop.works(0)
    assert (stop.at_work(1), stop.furthest(1)) == (0, 2)
    stop.rests()
    assert stop.at_work(1) is None


def test_what_is_said_of_one_batch_is_not_believed_of_another(stop: StopRequest) -> None:
    stop.begins(3)
    stop.works(3)
    assert (stop.furthest(2), stop.at_work(2)) == (-1, None)
