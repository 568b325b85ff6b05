from __future__ import annotations

import os
import subprocess
import sys
import uuid

from cli.servers.marked_processes import MARK, end_marked, marked_with

# The ignored argument has its place on the command line, so that the program looks like one of ours.
STUBBORN = "import signal, sys, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"


def start(mark: str, name: str, code: str = STUBBORN) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, name], env=os.environ | {MARK: mark}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_marked_process_is_ended_even_if_it_ignores_sigterm() -> None:
    mark = uuid.uuid4().hex
    with start(mark, "turno.commands.background_worker") as worker, start(mark, "somebody's shell") as shell:
        try:
            assert marked_with(mark) == [worker.pid]
            end_marked(mark, patience=0.2)
            assert worker.wait(60) == -9
            assert shell.poll() is None
        finally:
            worker.kill()
            shell.kill()


def test_another_mark_is_not_ours_to_end() -> None:
    mark = uuid.uuid4().hex
    with start(f"{mark}-longer", "turno.commands.main") as other:
        try:
            end_marked(mark, patience=0)
            assert other.poll() is None
        finally:
            other.kill()
