"""The wheel, alone in an empty environment, runs a job of a project with a package called `app`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.servers.free_port import free_port
from tests.installation import ROOT
from tests.wheel import run
from turno.client import Client
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.deep

PROJECT = {
    "pyproject.toml": """
        [tool.turno]
        handlers = "app.jobs:HANDLERS"
        web_app = "app:create_app"
        migrations = "tables"
    """,
    "tables/0001_greetings.sql": "CREATE TABLE greetings (name text PRIMARY KEY);",
    "app/__init__.py": """
        from flask import Flask
        from turno import Turno

        def create_app():
            app = Flask(__name__, static_folder=None)
            app.add_url_rule("/hello", view_func=lambda: "hello from the shop")
            Turno(app)
            return app
    """,
    "app/jobs.py": """
        from dataclasses import dataclass
        from turno import JobHandler

        @dataclass(frozen=True)
        class Name:
            name: str

        class Greet(JobHandler[Name]):
            type = "greet"

            def handle(self, job, payload):
                job.connection.execute("INSERT INTO greetings VALUES (%s)", [payload.name])
                return {"greeted": payload.name}

        HANDLERS = [Greet]
    """,
}

ENQUEUE = """
import os, sys
import psycopg, turno
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    turno.enqueue(connection, "suc0001", "greet", name="Ana")
print(sorted({"click", "flask", "jwt", "redis", "uvicorn"} & set(sys.modules)))
try:
    turno.Turno
except ImportError as error:
    print(error)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        lines = [line.removeprefix("        ") for line in text.strip("\n").splitlines()]
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def environment(shop: Path, module_database: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "DATABASE_URL": module_database,
        "TURNO_MASTER_KEY": "the shop's own master key, 32 or more",
        "TURNO_JWT_KEY": "the shop's own token key, 32 or more",
        "QUEUE_BACKEND": "exec",
        "TURNO_RUN_FOLDER": str(shop / "slots"),
        "TURNO_WEB_BIND": f"127.0.0.1:{free_port()}",
    }


@pytest.fixture
def web(shop: Path, environment: dict[str, str], programs: Path) -> Iterator[str]:
    """The shop's web, served by the installed `turno serve`."""
    turno = str(programs / "turno")
    run(turno, "db", "migrate", "--yes", cwd=shop, env=environment)
    run(turno, "tenant", "add", "suc0001", "--company", "shop", "--name", "The Shop", cwd=shop, env=environment)
    with (shop / "web.log").open("wb") as log:
        serving = subprocess.Popen([turno, "serve"], cwd=shop, env=environment, stdout=log, stderr=log)
    url = f"http://{environment['TURNO_WEB_BIND']}"
    try:
        assert wait_until(lambda: answered(url + "/readyz") == 200, within=30), (shop / "web.log").read_text()
        yield url
    finally:
        serving.terminate()
        serving.wait(20)


def answered(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own server
            return int(answer.status)
    except OSError:
        return 0


def test_wheel_has_one_package_and_runs_beside_app(
    wheel: Path, web: str, shop: Path, environment: dict[str, str], programs: Path
) -> None:
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"turno"}
    options = ("--user", "ana", "--tenant", "suc0001")
    token = run(str(programs / "turno"), "token", *options, cwd=shop, env=environment).strip()
    with urllib.request.urlopen(f"{web}/hello", timeout=60) as answer:  # noqa: S310 - our own server
        assert answer.read() == b"hello from the shop"
    client = Client(web, tenant="suc0001", token=token)
    job = client.wait(client.submit("greet", {"name": "Ana"}), timeout=60)
    assert job.result == {"greeted": "Ana"}, (shop / "slots" / "workers.log").read_text()


def test_wheel_without_extras_enqueues_and_works(
    shop: Path, environment: dict[str, str], oldest_programs: Path
) -> None:
    """Without Flask, Redis and a server, with the oldest versions that the package accepts."""

    def turno(*arguments: str) -> str:
        return run(str(oldest_programs / "turno"), *arguments, cwd=shop, env=environment)

    (shop / "app" / "__init__.py").write_text("")
    turno("db", "migrate", "--yes")
    turno("tenant", "add", "suc0001", "--company", "shop", "--name", "The Shop")
    imported, missing = run(str(oldest_programs / "python"), "-c", ENQUEUE, cwd=shop, env=environment).splitlines()
    assert imported == "[]"
    assert missing == "turno.Turno needs Flask: install turno-jobs with its extra `web`"
    turno("work", "--once")
    assert turno("job", "list", "--tenant", "suc0001", "--status", "completed").count("greet") == 1
    refused = subprocess.run(
        [oldest_programs / "turno", "serve"], cwd=shop, env=environment, capture_output=True, text=True, check=False
    )
    assert refused.stderr.endswith("`turno serve` needs uvicorn: install turno-jobs with its extra `serve`\n")


def test_mypy_accepts_the_readme_s_handler(wheel: Path, programs: Path, tmp_path: Path) -> None:
    assert "turno/py.typed" in zipfile.ZipFile(wheel).namelist()
    sample = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    (tmp_path / "raise_prices.py").write_text(sample)
    of_the_wheel = ("--python-executable", str(programs / "python"))
    run(sys.executable, "-m", "mypy", "--strict", *of_the_wheel, "raise_prices.py", cwd=tmp_path)


def test_uv_is_here() -> None:
    assert shutil.which("uv"), "the wheel's tests build and install with uv, which runs this project everywhere"
