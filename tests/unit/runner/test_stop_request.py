"""A child that runs one job after another is asked to stop the one that is meant."""

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
    yield stop
    signal.signal(signal.SIGTERM, before)


def asked(stop: StopRequest) -> tuple[bool, bool]:
    signal.raise_signal(signal.SIGTERM)
    return stop.requested, stop.overdue


def test_the_time_limit_of_an_attempt_is_its_own(stop: StopRequest) -> None:
    stop.begin()
    stop.name(StopRequest.TIME_LIMIT, 0)
    assert asked(stop) == (True, True)


def test_the_time_limit_of_an_attempt_that_has_ended_is_nothing_to_the_next(stop: StopRequest) -> None:
    stop.begin()
    stop.name(StopRequest.TIME_LIMIT, 0)
    stop.begin()
    assert asked(stop) == (False, False)


def test_who_was_asked_before_is_not_asked_for_the_next(stop: StopRequest) -> None:
    stop.begin()
    stop.name(StopRequest.TIME_LIMIT, 0)
    asked(stop)
    stop.begin()
    assert (stop.requested, stop.overdue) == (False, False)


def test_a_worker_that_stops_stops_the_next_too(stop: StopRequest) -> None:
    stop.begin()
    stop.name(StopRequest.GRACEFUL, 0)
    asked(stop)
    stop.begin()
    assert (stop.requested, stop.overdue) == (True, False)


def test_a_signal_from_anyone_else_means_the_present_attempt(stop: StopRequest) -> None:
    stop.begin()
    assert asked(stop) == (True, False)
    stop.begin()
    assert (stop.requested, stop.overdue) == (False, False)
