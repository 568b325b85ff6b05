"""Count the steps of a job from POST to completed: our files by process, SQL functions, and statements by login.

`python -m benchmarks.job_path [CHECKOUT]` needs that checkout's own `.venv`. It works on older checkouts, too, as it
uses nothing but the commands `turno demo`, `turno backend` and `turno work`, the API, and the server's log. Each figure
counts the steps that all of RUNS jobs passed: occasional other steps are not counted.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

RUNS = 8
WARM_UP = 5
TENANT = "suc0001"
FIRST_ORDER = 10248  # of the Northwind orders; the demo has invoiced it
PREFIX = "%a|%v:"

# Python imports it at the start of each process. The first byte of `turn` is faulty while a job is on its way.
TRACER = """
import mmap, os, sys, threading
folder, root = {folder!r}, {root!r}
turn = mmap.mmap(os.open(folder + "/turn", os.O_RDONLY), 1, prot=mmap.PROT_READ)
seen = set()
def trace(frame, event, _argument):
    now = turn[0]
    if now & 1 and event == "call":
        key = now, os.getpid(), frame.f_code.co_filename
        if key not in seen:
            seen.add(key)
            if key[2].startswith(root) and "/.venv/" not in key[2] and "/.turno/" not in key[2]:
                with open(f"{{folder}}/{{now}}.{{key[1]}}", "a") as file:
                    file.write(key[2][len(root):] + "\\n")
threading.setprofile(trace)
sys.setprofile(trace)
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """A demo that stays, and the file that announces each job."""

    folder: Path
    checkout: Path
    admin: psycopg.Connection[Any]
    page: str
    token: str


def main(checkout: Path) -> None:
    """Run the demo of the checkout and some jobs in a pool next to it, and print the steps of each job."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="job-path-")))
        (folder / "turn").write_bytes(b"\0")
        (folder / "sitecustomize.py").write_text(TRACER.format(folder=str(folder), root=f"{checkout}/"))
        environment = {name: text for name, text in os.environ.items() if not name.startswith("TURNO_")}
        environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "TURNO_LOG_LEVEL": "WARNING"}
        stack.callback(shutil.rmtree, checkout / ".turno", ignore_errors=True)

        def started(*command: str, **output: Any) -> subprocess.Popen[str]:
            turno = str(checkout / ".venv/bin/turno")
            process = subprocess.Popen([turno, *command], cwd=checkout, env=environment, text=True, **output)
            stack.callback(end, process)
            return process

        demo = started("demo", stdout=subprocess.PIPE)
        reply = ""
        while "token:" not in reply:
            if not (line := demo.stdout.readline() if demo.stdout else ""):
                raise SystemExit(reply)
            reply += line
        page, token = (reply.partition(f"{word}:")[2].split()[0] for word in ("page", "token"))
        admin = stack.enter_context(psycopg.connect(admin_url(checkout), autocommit=True))
        for setting in (f"log_line_prefix = '{PREFIX}'", "log_statement = 'all'", "track_functions = 'all'"):
            admin.execute(f"ALTER SYSTEM SET {setting}".encode())
        admin.execute("SELECT pg_reload_conf()")
        started("backend", "set", "pool", stdout=subprocess.DEVNULL).wait(30)
        pool = started("work", "--max", "1")
        installation = Installation(folder, checkout, admin, page, token)
        passed = [job(installation, turn=2 * number + 1) for number in range(WARM_UP + RUNS)][WARM_UP:]
        report(passed, {pid: role_of(pid, demo.pid, pool.pid) for item in passed for pid in item["files"]})


def admin_url(checkout: Path) -> str:
    """Return where the demo's superuser logs in."""
    lines = (checkout / ".turno/demo.env").read_text().splitlines()
    return next(line.partition("=")[2].strip("'") for line in lines if line.startswith("TURNO_ADMIN_DATABASE_URL="))


def end(process: subprocess.Popen[str]) -> None:
    """Stop it as Ctrl-C does."""
    process.send_signal(signal.SIGINT)
    process.wait(30)


def job(installation: Installation, *, turn: int) -> dict[str, Any]:
    """Submit a job and wait until it is completed; return its files by process, functions and statements."""
    log = installation.checkout / ".turno/postgres/server.log"
    time.sleep(1)
    functions, size = counted(installation.admin), log.stat().st_size
    (installation.folder / "turn").write_bytes(bytes([turn]))
    request = urllib.request.Request(  # noqa: S310 - the demo's own address
        f"{installation.page}/api/jobs/batch_invoicing",
        json.dumps({"payload": {"order_ids": [FIRST_ORDER]}}).encode(),
        {"Authorization": f"Bearer {installation.token}", "X-Schema": TENANT, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - as above
        job_id = json.loads(answer.read())["job_id"]
    tenants = installation.admin.execute("SELECT schema FROM turno.tenants WHERE slug = %s", [TENANT])
    (schema,) = tenants.fetchone() or ("",)
    ended = sql.SQL("SELECT finished_at FROM {} WHERE id = %s").format(sql.Identifier(schema, "background_jobs"))
    while not (installation.admin.execute(ended, [job_id]).fetchone() or [None])[0]:
        time.sleep(0.002)
    time.sleep(0.1)  # for the worker's messages
    (installation.folder / "turn").write_bytes(bytes([turn + 1]))
    time.sleep(1.2)  # until the server has counted
    lines = log.read_bytes()[size:].decode(errors="replace").splitlines()
    log_lines = [line for line in lines if "LOG:" in line and ("statement: " in line or "execute " in line)]
    return {
        "files": {
            int(file.suffix[1:]): set(file.read_text().splitlines()) for file in installation.folder.glob(f"{turn}.*")
        },
        "functions": {name for name, calls in counted(installation.admin).items() if calls > functions.get(name, 0)},
        # A login's name may go on with its worker and child; the session without a name belongs to this program.
        "statements": Counter(name for line in log_lines if (name := line.partition("|")[0].split()[0]) != "[unknown]"),
    }


def counted(admin: psycopg.Connection[Any]) -> dict[str, int]:
    """Return how often each function was called."""
    rows = admin.execute("SELECT funcname, sum(calls)::integer FROM pg_stat_user_functions GROUP BY 1")
    return dict(rows.fetchall())


def role_of(pid: int, demo: int, pool: int) -> str:
    """Return the role of a process."""
    above = pid
    while above > 1 and above not in {demo, pool}:
        try:
            above = int(Path(f"/proc/{above}/stat").read_text().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            return "gone"
    return {demo: "web", pool: "the pool's parent" if pid == pool else "the pool's child"}.get(above, "other")


def report(passed: list[Any], roles: dict[int, str]) -> None:
    """Print the steps of every job."""
    always = {pid: set.intersection(*(item["files"].get(pid, set()) for item in passed)) for pid in roles}
    steady = {pid: files for pid, files in always.items() if files}
    for pid, files in sorted(steady.items(), key=lambda item: roles[item[0]], reverse=True):
        print(f"{roles[pid]:<18} {len(files):>3} files: {' '.join(sorted(files))}")
    print(f"{'files together':<18} {len(set().union(*steady.values())):>3}, in {len(steady)} processes")
    functions = set.intersection(*(item["functions"] for item in passed))
    print(f"{'SQL functions':<18} {len(functions):>3}: {' '.join(sorted(functions))}")
    logins = set().union(*(item["statements"] for item in passed))
    least = {name: min(item["statements"][name] for item in passed) for name in sorted(logins)}
    reply = ", ".join(f"{name} {count}" for name, count in least.items() if count)
    print(f"{'statements':<18} {sum(least.values()):>3}: {reply}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
