"""Attacks of handlers on processes and on the machine's resources: the child itself and its descendants."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.misdeeds.deed import DEEDS, FaultyPayload, write
from tests.misdeeds.steps import wait_for_cancel
from turno.jobs.job_context import JobContext
from turno.runner import processes

HOARD: list[bytearray] = []


def loop_forever(_job: JobContext, _payload: FaultyPayload) -> None:
    while True:
        pass


async def block_the_loop(_job: JobContext, _payload: FaultyPayload) -> None:
    while True:
        time.sleep(1)  # noqa: ASYNC251 - that is the deed


def catastrophic_pattern(_job: JobContext, _payload: FaultyPayload) -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


def leave_a_grandchild(_job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    # Silent: a reader of the worker's output must not wait for it.
    quiet = subprocess.DEVNULL
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=quiet, stderr=quiet)
    return {"pid": child.pid, "text": payload.text}


def fork_twice_and_return(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Let one copy return and another end according to `text`, while this process continues."""
    for copy in range(2):
        if os.fork() == 0:
            if copy:
                DEEDS[payload.text](job, payload)
            return {"copy": copy}
    while not processes.has_no_child() and any(not _ended(pid) for pid in processes.children()):
        time.sleep(0.01)
    write(job)
    return {"copy": None}


def _ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


ESCAPE = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.write(1, str(os.getpid()).encode())
os.close(1)
time.sleep(600)
"""


def escape(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Start a daemon: twice forked, in a separate session; then run the deed in `text`."""
    quiet = subprocess.DEVNULL
    done = subprocess.run([sys.executable, "-c", ESCAPE], stdout=subprocess.PIPE, stderr=quiet, text=True, check=True)
    Path(os.environ["ESCAPED"]).write_text(done.stdout)
    DEEDS[payload.text](job, payload)
    return {"pid": int(done.stdout)}


def look_for_the_escaped(_job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Return whether the last process started by `escape` still runs."""
    return {"runs": Path(f"/proc/{Path(os.environ['ESCAPED']).read_text()}").exists()}


def wait_with_a_process(job: JobContext, payload: FaultyPayload) -> None:
    """Keep a process of one's own, named in the checkpoint, until cancelled."""
    with subprocess.Popen(["sleep", "600"]) as mine:
        job.checkpoint(mine.pid)
        try:
            wait_for_cancel(job, payload)
        finally:
            mine.kill()


def exhaust_memory(_job: JobContext, _payload: FaultyPayload) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(16 * 1024 * 1024))


def print_much(_job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Print `number` megabytes."""
    for _ in range(payload.number):
        sys.stdout.write("x" * 2**20)
    return {}


def grow(_job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Keep `number` megabytes for good."""
    HOARD.append(bytearray(payload.number << 20))
    return {"pid": os.getpid()}


LEFT_OPEN: list[Any] = []


def leave_a_copy(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    copying = job.connection.cursor().copy("COPY customers TO STDOUT")
    copying.__enter__()
    LEFT_OPEN.append(copying)
    return {}


def fork_and_close(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Let a forked process close the session that it has inherited."""
    write(job)
    if (pid := os.fork()) == 0:
        psycopg.Connection.close(job.connection)
        os._exit(0)
    os.waitpid(pid, 0)
    job.connection.execute("SELECT 1")
    return {}


def fork_and_leave(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Let a forked process end with the session that it has inherited."""
    write(job)
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return {}


def become_another(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    job.connection.execute(f"SET ROLE {payload.text}".encode())
    return {}


def stop_self(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Show that it runs, then sleep until it is continued; later attempts return at once."""
    if job.attempt == 1:
        job.progress(1, 2, "stopping")
        os.kill(os.getpid(), signal.SIGSTOP)
    return {}
