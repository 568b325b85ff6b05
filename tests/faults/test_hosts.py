"""Hosts in namespaces leave nothing behind, also when their parent is killed."""

import subprocess
import sys
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
    print(lan.our_link, inside.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.root
def test_killed_parent_takes_hosts_and_processes_along() -> None:
    with subprocess.Popen([sys.executable, "-c", MAKE], stdout=subprocess.PIPE, text=True, cwd=ROOT) as maker:
        assert maker.stdout is not None
        link, inside = maker.stdout.readline().split()
        network = Path("/sys/class/net") / link
        assert network.exists()
        assert state(int(inside))
        maker.kill()
    # The kernel removes a network namespace after the end of its last process, slowly on a crowded machine.
    assert wait_until(lambda: not network.exists() and state(int(inside)) in {"Z", ""}, within=60)
