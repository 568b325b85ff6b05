"""From the wheel to the first job in applications of several frameworks, beside Procrastinate's way to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from itertools import count
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks import adopted_applications as applications
from benchmarks import adopted_microblog
from benchmarks.adopted_applications import ADMIN_URL, PEER, ROLE
from benchmarks.environment import ROOT, open_environment
from benchmarks.report import Report
from benchmarks.sampling import interleaved
from cli.servers.system_packages import MODULES, unpack

if TYPE_CHECKING:
    from benchmarks.adopted_applications import Adoption
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from benchmarks.sampling import Contestant

OURS = "turno"
AT_MOST = 1.5
PASSWORD = "x"  # noqa: S105 - of a private server
PG_VARIABLES = {
    "host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD",
}  # fmt: skip


def run(options: Options) -> Report:
    """Create each application without a job system; measure the commands from the wheel to the job's result."""
    report = Report("adopt", "ms")
    with open_environment() as bench:
        wheel = _wheel(bench.folder)
        report.facts["size of the wheel, kB"] = wheel.stat().st_size // 1000
        _pins(bench.folder)
        bench.admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(ROLE), PASSWORD))
        if not options.smoke:
            unpack(["node-pg", "node-split2"], bench.folder / "node")
        ours = _with_turno(str(wheel), smoke=options.smoke)
        peers = _with_procrastinate() if options.peers else {}
        if checkout := os.environ.get("MICROBLOG"):
            ours["microblog"], peer = adopted_microblog.with_each(Path(checkout), str(wheel))
            peers |= {"microblog": peer} if options.peers else {}
        adoptions = {f"{OURS}: {name}": adoption for name, adoption in ours.items()}
        adoptions |= {f"{PEER}: {name}": adoption for name, adoption in peers.items()}
        numbers = count()
        processor: dict[str, list[float]] = {name: [] for name in adoptions}
        samples = interleaved(
            {name: _contestant(bench, numbers, adoption, processor[name]) for name, adoption in adoptions.items()},
            rounds=options.of(5, quick=1, smoke=1),
            warm_up=0 if options.smoke else 1,  # brings the packages
        )
    for name, adoption in adoptions.items():
        report.facts[name] = f"{adoption.commands} commands, changed lines: {adoption.changed_lines}"
    report.add(samples)
    report.add({f"{name}, processor": values[-len(samples[name]) :] for name, values in processor.items()})
    for name in peers:
        report.compare(samples, f"{OURS}: {name}", f"{PEER}: {name}", at_most=AT_MOST)
    return report


def _with_turno(wheel: str, *, smoke: bool) -> dict[str, Adoption]:
    django = {"Django": applications.django_with_turno(wheel)}
    if smoke:
        return django
    plain = applications.with_turno(applications.PLAIN, wheel, applications.PLAIN_TURNO)
    fastapi = {
        f"FastAPI, {driver}": applications.with_turno(application, wheel, applications.FASTAPI_TURNO[driver])
        for driver, application in applications.FASTAPI.items()
    }
    php = applications.with_turno(applications.PHP, wheel, applications.PHP_TURNO)
    node = applications.with_turno(applications.NODE, wheel, applications.NODE_TURNO)
    return {"psycopg": plain, **django, **fastapi, "PHP": php, "Node": node}


def _with_procrastinate() -> dict[str, Adoption]:
    return {
        "psycopg": applications.with_procrastinate(applications.PLAIN, applications.PLAIN_PROCRASTINATE),
        "Django": applications.django_with_procrastinate(),
        "FastAPI, psycopg": applications.with_procrastinate(
            applications.FASTAPI["psycopg"], applications.FASTAPI_PROCRASTINATE
        ),
    }


def _wheel(folder: Path) -> Path:
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder / "wheel", ROOT], check=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    return wheel


def _pins(folder: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (folder / "pins.txt").write_text("\n".join(project["tool"]["uv"]["constraint-dependencies"]))


def _contestant(bench: BenchEnvironment, numbers: count[int], adoption: Adoption, processor: list[float]) -> Contestant:
    """Return the adoption, whose turn also adds the processor time of its commands, without the database, in ms."""
    application = adoption.application

    def turn() -> list[float]:
        name = f"adopt_{next(numbers)}"
        project = _Project(bench.folder / name, bench.database(name))
        with psycopg.connect(project.url, autocommit=True) as admin:
            project.create(admin, application.schema)
            project.write(application.files)
            if application.packages:
                project.install(*application.packages)
            for command in application.prepare:
                project.run(command)
            start, used = time.monotonic_ns(), _processor_time()
            project.write(adoption.files)
            project.install(adoption.package)
            for command in (*adoption.install, application.program, adoption.work):
                project.run(command)
            took = (time.monotonic_ns() - start) / 1e6
            processor.append(_processor_time() - used)
            if admin.execute(application.result.encode()).fetchall() != [(application.expected,)]:
                raise RuntimeError(f"{adoption.package} ended without its job's work")
        shutil.rmtree(project.folder)
        return [took]

    return turn


def _processor_time() -> float:
    children = getrusage(RUSAGE_CHILDREN)
    return 1000 * (children.ru_utime + children.ru_stime)


class _Project:
    """The folder of an application with its Python environment, its database and its role."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        application = {**conninfo_to_dict(url), "user": ROLE, "password": PASSWORD}
        self._programs = folder / "venv" / "bin"
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self._environment = {
            **kept,
            **{PG_VARIABLES[name]: str(value) for name, value in application.items() if name in PG_VARIABLES},
            "ERP_DATABASE_URL": make_conninfo("", **application),
            "DJANGO_SETTINGS_MODULE": "erp.settings",
            "TURNO_RUN_FOLDER": str(folder / "slots"),
            "PYTHONPATH": str(folder),
            "NODE_PATH": str(folder.parent / "node" / MODULES),
        }

    def create(self, admin: psycopg.Connection[Any], schema: str) -> None:
        """Make the environment and the tables of the application."""
        database, role = sql.Identifier(admin.info.dbname), sql.Identifier(ROLE)
        admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, role))
        admin.execute(sql.SQL("SET ROLE {}").format(role))
        admin.execute(schema.encode())
        admin.execute("RESET ROLE")
        self.folder.mkdir()
        _run(("uv", "venv", "--quiet", "--python", sys.executable, "venv"), self.folder, dict(os.environ))

    def write(self, files: dict[str, str]) -> None:
        """Write files, and replace existing files."""
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")

    def install(self, *packages: str) -> None:
        """Install packages in the versions of the application, or else of this repository."""
        own = self.folder / "requirements.txt"
        pins = str(own if own.exists() else self.folder.parent / "pins.txt")
        options = ("--quiet", "--python", str(self._programs / "python"), "--constraint", pins)
        _run(("uv", "pip", "install", *options, *packages), self.folder, dict(os.environ))

    def run(self, command: tuple[str, ...]) -> None:
        """Run a command of the application or of its job system."""
        words = [self.url if word == ADMIN_URL else word for word in command]
        program = self._programs / words[0]
        _run((str(program if program.exists() else words[0]), *words[1:]), self.folder, self._environment)


def _run(command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
