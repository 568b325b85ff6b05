from __future__ import annotations

import http.client
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dotenv import dotenv_values
from psycopg.conninfo import conninfo_to_dict

from tests.acceptance.turno_process import as_checkout, bare_environment, turno
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

NET_TOTAL = "1265793.29"


@pytest.fixture
def marked() -> dict[str, str]:
    """An environment that everything started in it carries."""
    return bare_environment(TEST_MARK=uuid.uuid4().hex)


def processes(environment: dict[str, str]) -> list[str]:
    """The surviving processes of everything that was started in this environment."""
    mark = f"TEST_MARK={environment['TEST_MARK']}".encode()
    result = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                result.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return result


def play(folder: Path, environment: dict[str, str], *options: str) -> dict[str, Any]:
    done = turno("demo", "--exit", "--json", *options, environment=environment, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


def assert_everything_is_invoiced(report: dict[str, Any]) -> None:
    assert (report["jobs"], report["orders"], report["invoices"], report["lines"]) == (3, 830, 830, 2155)
    assert report["net_total"] == report["orders_net_total"] == NET_TOTAL
    assert (report["missing_numbers"], report["doubled_orders"], report["wrong_totals"]) == (0, 0, 0)
    assert report["seconds"] > 0
    assert report["dispatch_ms"] > 0


def test_demo_invoices_repeatedly_and_leaves_no_process(tmp_path: Path, marked: dict[str, str]) -> None:
    assert_everything_is_invoiced(play(tmp_path, marked))
    assert processes(marked) == []
    kept = [path for path in (tmp_path / ".turno").iterdir() if path.name != "postgres-programs"]
    assert {path.name: path.stat().st_mode & 0o077 for path in kept} == dict.fromkeys((path.name for path in kept), 0)
    (tmp_path / ".turno" / "demo.env").unlink()  # new keys for an old database
    assert_everything_is_invoiced(play(tmp_path, marked))
    assert processes(marked) == []


@pytest.fixture
def printed() -> list[str]:
    """The lines of the open demo."""
    return []


@pytest.fixture
def open_demo(
    tmp_path: Path, marked: dict[str, str], printed: list[str], interruptible: None
) -> Iterator[subprocess.Popen[str]]:
    """A demo that has left its pages open."""
    del interruptible
    as_checkout(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "turno.commands.main", "demo"],
        env=marked,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if line.startswith("Ctrl-C"):
                break
        else:
            pytest.fail("".join(printed))
        yield process
        process.kill()


def test_an_open_demo_serves_other_terminals_until_ctrl_c(
    open_demo: subprocess.Popen[str], tmp_path: Path, marked: dict[str, str], printed: list[str]
) -> None:
    url, token, waiting, command = (
        match[1]
        for pattern in (r"page: +(\S+)", r"token: +(\S+)", r"(\d+) new orders wait", r"  uv run turno (.+?)  ")
        if (match := re.search(pattern, "".join(printed)))
    )
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)) as web:
        web.request("GET", "/?branch=suc0001", headers={"Cookie": f"turno={token}"})
        assert f"<b>{waiting} orders</b>" in web.getresponse().read().decode()
    assert "data_import" in turno(*shlex.split(command), environment=marked, folder=tmp_path).stdout
    listed = turno("job", "list", "--tenant", "suc0002", environment=marked, folder=tmp_path)
    assert "200/200" in listed.stdout, listed.stderr
    scheduled = turno("schedule", "list", "--all", environment=marked, folder=tmp_path)
    assert "nightly-invoices" in scheduled.stdout, scheduled.stderr
    status = turno("status", environment=marked, folder=tmp_path)
    assert "no process runs maintenance" not in status.stdout, status.stdout
    second = turno("demo", "--exit", environment=marked, folder=tmp_path)
    assert (second.returncode, second.stdout) == (1, "")
    assert "another demo runs" in second.stderr
    open_demo.send_signal(signal.SIGINT)
    assert open_demo.wait(30) == 0
    assert processes(marked) == []


def test_a_killed_demo_is_no_obstacle(open_demo: subprocess.Popen[str], tmp_path: Path, marked: dict[str, str]) -> None:
    sockets = Path(str(conninfo_to_dict(str(dotenv_values(tmp_path / ".turno" / "demo.env")["DATABASE_URL"]))["host"]))
    open_demo.kill()
    open_demo.wait(60)
    assert sockets.exists()
    assert_everything_is_invoiced(play(tmp_path, marked))
    assert not sockets.exists()
    assert wait_until(lambda: processes(marked) == [], within=10), processes(marked)


def test_a_step_that_fails_is_one_sentence(tmp_path: Path, marked: dict[str, str]) -> None:
    without = turno("demo", "--exit", environment=marked | {"PG_BIN": str(tmp_path)}, folder=tmp_path)
    assert without.returncode == 1
    assert without.stderr.startswith("could not start PostgreSQL: PG_BIN=")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = turno("demo", "--exit", "--port", port, environment=marked, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"could not start the web: port {port} cannot be had (Address already in use); choose another with --port"
    )
    assert processes(marked) == []


def test_the_demo_uses_the_postgres_that_is_named(database: str, tmp_path: Path, marked: dict[str, str]) -> None:
    report = play(tmp_path, marked | {"DATABASE_URL": database})
    assert_everything_is_invoiced(report)
    assert not (tmp_path / ".turno" / "postgres").exists()
    listed = turno(
        "job", "list", "--tenant", "suc0003", environment=marked | {"DATABASE_URL": database}, folder=tmp_path
    )
    assert "130/130" in listed.stdout, listed.stderr
