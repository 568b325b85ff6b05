"""Hosts in namespaces leave nothing behind, also when their parent is killed."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.installation import ROOT
from turno.testing.processes import state
from turno.testing.wait import wait_until

MAKE = """
import os, sys, time
from tests.faults.hosts import Lan
with Lan("one", "two") as lan:
    one, two = lan.hosts
    inside = one.start(["sleep", "600"], dict(os.environ))
    spaces = [os.readlink(f"/proc/{each.pid}/ns/net") for each in (lan._switch, one, two)]
    print(lan.our_link, inside.pid, *spaces, flush=True)
    time.sleep(600)
"""


@pytest.mark.root
def test_killed_parent_takes_hosts_and_processes_along() -> None:
    with subprocess.Popen([sys.executable, "-c", MAKE], stdout=subprocess.PIPE, text=True, cwd=ROOT) as maker:
        assert maker.stdout is not None
        link, inside, *spaces = maker.stdout.readline().split()
        assert (Path("/sys/class/net") / link).exists()
        assert state(int(inside))
        assert len(set(spaces)) == 3
        assert set(spaces) <= used_networks()
        maker.kill()
    # The kernel removes a namespace without a process, and its links, asynchronously: at times minutes later.
    assert wait_until(lambda: not used_networks() & set(spaces), within=60)
    assert state(int(inside)) in {"Z", ""}


def used_networks() -> set[str]:
    """Return the network namespaces of all processes."""
    networks = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            networks.add(str((process / "ns/net").readlink()))
    return networks
