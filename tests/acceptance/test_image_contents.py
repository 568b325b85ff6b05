"""The contents of the image, put together by its Dockerfile, run: no daemon builds images where the tests run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from cli.servers.free_port import free_port
from tests.installation import ROOT
from tests.wheel import run
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deep

DOCKERFILE = (ROOT / "deploy" / "container" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
# The further requirements of the reference application.
FURTHER = re.findall(r'titles\]"((?: [\w-]+)+)', DOCKERFILE)[0].split()
APPLICATION = {"app", "handlers", "imports", "migrations", "pyproject.toml", "reports", "tax_authority", "tenants"}
LAST_STAGE = DOCKERFILE.rpartition("\nFROM ")[2]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The folder that the last stage makes its working directory."""
    folder: str
    (folder,) = re.findall(r"^WORKDIR (.*)$", LAST_STAGE, re.MULTILINE)
    root = tmp_path / folder.strip("/")
    root.mkdir(parents=True)
    for source, target in re.findall(r"^COPY (\w+) (\w+)$", LAST_STAGE, re.MULTILINE):
        shutil.copytree(ROOT / source, root / target, ignore=shutil.ignore_patterns("__pycache__"))
    (printed,) = re.findall(r"^RUN printf '%s\\n' (.*) > pyproject.toml$", LAST_STAGE, re.MULTILINE)
    (root / "pyproject.toml").write_text("\n".join(shlex.split(printed)), encoding="utf-8")
    (tmp_path / "run" / "turno").mkdir(parents=True, mode=0o700)
    return root


@pytest.fixture
def environment(tmp_path: Path, module_database: str, programs: Path) -> dict[str, str]:
    (line,) = re.findall(r"^ENV (.*)$", LAST_STAGE, re.MULTILINE)
    variables = dict(pair.split("=", 1) for pair in line.split())
    # The same places, below the test's own folder.
    local = {name: value.replace("/srv", f"{tmp_path}/srv").replace("/run", f"{tmp_path}/run")
            for name, value in variables.items()}  # fmt: skip
    local |= {"PATH": f"{programs}:{os.environ['PATH']}", "TURNO_WEB_BIND": f"127.0.0.1:{free_port()}"}
    return local | {
        "DATABASE_URL": module_database,
        "TURNO_MASTER_KEY": "the image's own master key, 32 or more",
        "TURNO_JWT_KEY": "the image's own token key, 32 or more",
    }


@pytest.fixture
def at_work(image: Path, environment: dict[str, str], programs: Path) -> Iterator[None]:
    """The web and a pool, started by the commands that compose gives them."""
    started = []
    with (image.parent / "log").open("wb") as log:
        for words in (["serve"], ["work", "--queues", "cold"]):
            command = [str(programs / "turno"), *words]
            started.append(subprocess.Popen(command, cwd=image, env=environment, stdout=log, stderr=log))
        yield
        for process in started:
            process.terminate()
        assert [process.wait(45) for process in started] == [0, 0], (image.parent / "log").read_text()


def test_image_contents_serve_and_run_jobs(
    image: Path, environment: dict[str, str], programs: Path, request: pytest.FixtureRequest
) -> None:
    pins = programs.parent.parent / "pins.txt"
    install = ("uv", "pip", "install", "--quiet", "--constraints", str(pins), "--python", str(programs / "python"))
    run(*install, *FURTHER, cwd=image)

    def command(*words: str) -> str:
        return run(str(programs / "turno"), *words, cwd=image, env=environment)

    command("db", "migrate", "--yes")
    command("tenant", "add", "suc0001", "--company", "acme", "--name", "Acme")
    request.getfixturevalue("at_work")
    script = (
        f"import urllib.request; urllib.request.urlopen('http://{environment['TURNO_WEB_BIND']}/readyz', timeout=3)"
    )
    probes = ([str(programs / "python"), "-c", script], [str(programs / "turno"), "work", "--check"])
    for probe in probes:

        def answers(probe: list[str] = probe) -> bool:
            return subprocess.run(probe, cwd=image, env=environment, capture_output=True, check=False).returncode == 0

        assert wait_until(answers, within=90, every=0.2), (image.parent / "log").read_text()
    payload = ("--payload", '{"order_ids": [1]}')
    job = command("job", "submit", "batch_invoicing", "--tenant", "suc0001", *payload).strip()
    assert wait_until(lambda: "completed" in command("job", "show", "--tenant", "suc0001", job), within=90)
    assert [path.name for path in image.iterdir() if path.name not in APPLICATION] == []
