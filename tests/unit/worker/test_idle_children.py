"""Who has nothing to do goes after a while, if he is not one of the fewest; nobody else is looked at."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from turno.runner.stop_request import StopRequest
from turno.worker.child import Child
from turno.worker.idle_children import IdleChildren

Children = dict[int, Child]


@pytest.fixture
def children() -> Iterator[Children]:
    """Three idle children, of which only the pid is real."""
    processes = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(3)]
    pairs = [socket.socketpair() for _ in processes]
    children = {
        process.pid: Child(process.pid, ours, StopRequest(), lambda claim, _: claim)
        for process, (ours, _) in zip(processes, pairs, strict=True)
    }
    yield children
    for process in processes:
        process.communicate()
    for _, theirs in pairs:
        theirs.close()
    for child in children.values():
        child.close()


def leaving(children: Children) -> int:
    return sum(child.leaving for child in children.values())


def test_the_fewest_are_left_alone_however_long_they_idle(children: Children) -> None:
    idle_children = IdleChildren(children, fewest=3, patience=0.0)
    assert idle_children.due == math.inf
    idle_children.dismiss()
    assert leaving(children) == 0


def test_who_is_spare_goes_and_nobody_in_his_place(children: Children) -> None:
    idle_children = IdleChildren(children, fewest=2, patience=0.0)
    assert idle_children.due < math.inf
    for _ in range(2):
        idle_children.dismiss()
        assert leaving(children) == 1
        assert idle_children.due == math.inf
    assert len(idle_children.idle) == 2


def test_nobody_goes_before_his_time(children: Children) -> None:
    idle_children = IdleChildren(children, fewest=1, patience=60.0)
    idle_children.dismiss()
    assert leaving(children) == 0
