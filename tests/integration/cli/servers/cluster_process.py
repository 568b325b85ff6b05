"""Start a cluster from another process, which can then be killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[3]


class ClusterProcess(subprocess.Popen[str]):
    url = ""


def start_cluster_process(data: Path, *, how: str, environment: Mapping[str, str] | None = None) -> ClusterProcess:
    """Return when the cluster runs; started in a thread, its server outlives the process."""
    process = ClusterProcess(
        [sys.executable, "-m", "tests.integration.cli.servers.lonely_cluster", str(data), how],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.url = process.stdout.readline().strip()
    if not process.url:
        kill(process)
        raise AssertionError("the cluster did not start in the other process")
    return process


def kill(process: ClusterProcess) -> None:
    """Kill the process at once, and nothing that it started; remove the sockets' folder, as it no longer can."""
    with process:
        process.kill()
    if process.url:
        shutil.rmtree(str(conninfo_to_dict(process.url)["host"]))
