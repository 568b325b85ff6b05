"""From the wheel to the first job in an application that is there already, beside Procrastinate's way to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from benchmarks.environment import ROOT, open_environment
from benchmarks.report import Report

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant

OURS, PEER = "turno", "procrastinate"
AT_MOST = 1.5
TABLES = """
CREATE SCHEMA suc0001 AUTHORIZATION erp;
SET ROLE erp;
CREATE TABLE suc0001.orders (id integer PRIMARY KEY, amount numeric NOT NULL);
CREATE TABLE suc0001.reports (month text PRIMARY KEY, amount numeric NOT NULL);
INSERT INTO suc0001.orders VALUES (1, 10.50), (2, 20.00);
"""
OUR_FILES = {
    "app/jobs.py": """
from dataclasses import dataclass
from turno import JobHandler

@dataclass(frozen=True)
class Month:
    month: str

class MonthlyReport(JobHandler[Month]):
    type = "monthly_report"

    def handle(self, job, payload):
        job.connection.execute("INSERT INTO reports SELECT %s, sum(amount) FROM orders", [payload.month])
        return {}

HANDLERS = [MonthlyReport]
""",
    "app/close_month.py": """
import os, psycopg, turno
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    turno.enqueue(connection, "suc0001", "monthly_report", month="2026-06")
""",
}
PEER_FILES = {
    "app/jobs.py": """
import os, procrastinate, psycopg
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE_URL"]))

@app.task(name="monthly_report")
def monthly_report(schema, month):
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        connection.execute(f"INSERT INTO {schema}.reports SELECT %s, sum(amount) FROM {schema}.orders", [month])
""",
    "app/close_month.py": """
from app.jobs import app, monthly_report
with app.open():
    monthly_report.defer(schema="suc0001", month="2026-06")
""",
}


class Way(NamedTuple):
    """What is installed, the application's files, and the commands after that."""

    package: str
    files: dict[str, str]
    commands: tuple[tuple[str, ...], ...]


def run(options: Options) -> Report:
    """Make an empty environment each time and go from the installation, whose files are here, to the first result."""
    report = Report("adopt", "ms")
    with open_environment() as bench:
        wheel = _wheel(bench.folder)
        bench.admin.execute("CREATE ROLE erp")
        report.facts["size of the wheel, kB"] = wheel.stat().st_size // 1000
        keys = ("--env-file", "keys.env")
        ours = Way(
            str(wheel),
            OUR_FILES,
            (
                ("turno", *keys, "db", "migrate", "--yes"),
                ("turno", *keys, "schema", "adopt", "suc0001"),
                ("python", "-m", "app.close_month"),
                ("turno", *keys, "work", "--once"),
            ),
        )
        contestants = {OURS: _contestant(bench, OURS, ours)}
        if options.peers:
            app = ("procrastinate", "--app=app.jobs.app")
            commands = (
                (*app, "schema", "--apply"),
                ("python", "-m", "app.close_month"),
                (*app, "worker", "--one-shot"),
            )
            contestants[PEER] = _contestant(bench, PEER, Way("procrastinate", PEER_FILES, commands))
        for contestant in contestants.values():
            contestant()  # brings what is downloaded here
        samples = options.sample(contestants, rounds=10, quick=3)
    report.facts["commands"] = {OURS: len(ours.commands) + 1, PEER: 4}
    report.add(samples)
    if options.peers:
        report.compare(samples, OURS, PEER, at_most=AT_MOST)
    return report


def _wheel(folder: Path) -> Path:
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder / "wheel", ROOT], check=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    return wheel


def _contestant(bench: BenchEnvironment, name: str, way: Way) -> Contestant:
    numbers = count()

    def turn() -> list[float]:
        number = next(numbers)
        project = bench.folder / f"{name}_{number}"
        url = bench.database(f"{name}_{number}")
        with psycopg.connect(url, autocommit=True) as application:
            application.execute(TABLES.encode())
        for file, text in {"app/__init__.py": "", **way.files}.items():
            (project / file).parent.mkdir(parents=True, exist_ok=True)
            (project / file).write_text(text)
        (project / "keys.env").write_text(f"TURNO_MASTER_KEY={'m' * 32}\nJWT_KEY={'j' * 32}\n")
        start = time.monotonic_ns()
        _go(way, project, url)
        took = (time.monotonic_ns() - start) / 1e6
        with psycopg.connect(url) as application:
            if application.execute("SELECT amount::text FROM suc0001.reports").fetchall() != [("30.50",)]:
                raise RuntimeError(f"{name} ended without its job's work")
        shutil.rmtree(project)
        return [took]

    return turn


def _go(way: Way, project: Path, url: str) -> None:
    programs = project / "venv" / "bin"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    slots = str(project / "slots")
    environment = kept | {"DATABASE_URL": url, "TURNO_HANDLERS": "app.jobs:HANDLERS", "TURNO_RUN_FOLDER": slots}
    environment["PYTHONPATH"] = str(project)
    install = ("uv", "pip", "install", "--quiet", "--python", str(programs / "python"), way.package, "psycopg[binary]")
    _run(("uv", "venv", "--quiet", "--python", sys.executable, str(project / "venv")), project, dict(os.environ))
    _run(install, project, dict(os.environ))
    for program, *arguments in way.commands:
        _run((str(programs / program), *arguments), project, environment)


def _run(command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
