"""Runs pytest in forks of one process that has imported the outside packages of every run, and none of our code.

A separate program: `python fork_server.py` in the copy, one JSON request a line on its standard input, for each the
child's pid and its exit status on a line each.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from typing import Any

PRELOADED = (
    "click",
    "cronsim",
    "cryptography.hazmat.primitives.serialization",
    "flask",
    "flask_sse",
    "uvicorn",
    "hypothesis",
    "jwt",
    "prometheus_client",
    "psycopg.types.json",
    "psycopg_pool",
    "msgspec",
    "pytest",
    "xlsxwriter",
)


def main() -> None:
    """Fork for each request and say the child's pid, then how it ended."""
    # In place of the folder of this program.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - sys.path holds text
    for module in PRELOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # else each fork's first collection would copy all of it
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(request)
        say(pid)
        _, status = os.waitpid(pid, 0)
        say(os.waitstatus_to_exitcode(status))


def say(answer: int) -> None:
    """Answer in a line."""
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def run(request: dict[str, Any]) -> None:
    """Become a pytest run in a separate process group; never return."""
    import pytest  # noqa: PLC0415 - imported by now

    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    status = 70  # as sysexits.h has it: the run itself is at fault
    try:
        status = int(pytest.main(request["arguments"]))
    except BaseException:  # noqa: BLE001 - printed, and shown by the exit status
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
