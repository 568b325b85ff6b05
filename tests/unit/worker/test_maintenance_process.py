"""The process for maintenance: its absence or end does not affect the worker."""

from __future__ import annotations

import os
import time

import pytest

from turno.testing.wait import wait_until
from turno.worker import maintenance_process
from turno.worker.maintenance_process import MaintenanceProcess


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(maintenance_process, "monotonic", lambda: now[0])
    return now


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def nothing() -> None:
    pass


def test_without_a_process_to_be_had_the_next_round_tries_again(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tidy = MaintenanceProcess(nothing, every=10)
    tidy.fork_if_due(in_child=nothing)
    first = tidy.pid
    assert first is not None
    assert wait_until(lambda: has_ended(first), within=10)

    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as full:
        full.setattr(os, "fork", refused)
        clock[0] = 10
        tidy.fork_if_due(in_child=nothing)
        assert "no process could be had for maintenance" in caplog.text
        tidy.end()  # the first one's process was reaped
    clock[0] = 20
    tidy.fork_if_due(in_child=nothing)
    assert tidy.pid not in (None, first)
    tidy.end()


def test_a_round_that_is_under_way_is_ended_and_reaped(clock: list[float]) -> None:
    tidy = MaintenanceProcess(lambda: time.sleep(600), every=10)
    tidy.fork_if_due(in_child=nothing)
    pid = tidy.pid
    assert pid is not None
    clock[0] = 10
    tidy.fork_if_due(in_child=nothing)
    assert tidy.pid == pid  # never two
    tidy.end()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)
