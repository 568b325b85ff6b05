"""Two releases side by side, each in a separate tree: a worker runs the jobs of its code and leaves the rest."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.testing.wait import wait_until

FOLDERS = ("app", "cli", "handlers", "imports", "nemesis", "reports", "tax_authority", "tenants", "tests", "turno")


class FaultyNext(Faulty):
    """The next release's version of the handler."""

    version = 2


class FaultyNew(Faulty):
    type = "faulty_new"


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a second version of one handler, and another handler more."""
    tree = tmp_path_factory.mktemp("next-release")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    handlers = tree / "tests" / "misbehaving_handlers.py"
    text = handlers.read_text()
    classes = (
        "class FaultyNext(Faulty):\n    version = 2\n\n\n"
        'class FaultyNew(Faulty):\n    type = "faulty_new"\n\n\nREGISTRY = Registry(\n    {\n'
        '        "faulty_new": "tests.misbehaving_handlers:FaultyNew",\n'
    )
    text = text.replace("REGISTRY = Registry(\n    {\n", classes)
    text = text.replace('"tests.misbehaving_handlers:Faulty",', '"tests.misbehaving_handlers:FaultyNext",')
    handlers.write_text(text)
    return tree


@pytest.fixture(autouse=True)
def pool(example: ExampleInstallation) -> None:
    example.faulty = True
    example.backend = "pool"
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


@pytest.fixture
def new_worker(example: ExampleInstallation, next_release: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A resident worker of the next release."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "turno.commands.main", "work"],
        cwd=next_release,
        env=example.environment | {"PYTHONPATH": str(next_release)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield worker
    worker.kill()
    worker.wait()


def completed(example: ExampleInstallation, *jobs: object) -> bool:
    example.time_passes()
    result = example.rows("SELECT id FROM background_jobs WHERE status = 'completed'")
    return {row["id"] for row in result} >= set(jobs)


def test_an_old_worker_leaves_a_type_it_does_not_know(example: ExampleInstallation) -> None:
    unknown = example.enqueue({"how": "ok"}, handler=FaultyNew)
    for _ in range(999):
        example.enqueue({"how": "ok"}, handler=FaultyNew)
    known = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(3)]
    old = example.start_pool()
    assert wait_until(lambda: completed(example, *known), within=20)
    assert (example.job(unknown)["status"], example.job(unknown)["attempt"]) == ("pending", 0)
    ticket = example.ticket(unknown)
    assert ticket is not None
    assert (ticket["state"], ticket["attempt"]) == ("ready", 0)
    waiting = {"status": "pending", "attempt": 0, "n": 1000}
    of_unknown_type = (
        "SELECT status, attempt, count(*) AS n FROM background_jobs WHERE type = 'faulty_new' GROUP BY 1, 2"
    )
    assert example.rows(of_unknown_type) == [waiting]
    assert old.poll() is None


def test_an_old_worker_leaves_a_version_newer_than_its_code(example: ExampleInstallation) -> None:
    newer = example.enqueue({"how": "ok", "a_field_of_the_next_release": 1}, handler=FaultyNext)
    known = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(3)]
    old = example.start_pool()
    assert wait_until(lambda: completed(example, *known), within=20)
    job = example.job(newer)
    assert (job["status"], job["attempt"], job["errors"], job["crashes"]) == ("pending", 0, 0, 0)
    assert old.poll() is None


def test_two_releases_share_the_work_and_each_job_runs_once(
    example: ExampleInstallation, new_worker: subprocess.Popen[bytes]
) -> None:
    counting = example.enqueue({"how": "resume", "text": "kill_self", "number": 20}, handler=Faulty)
    jobs = [example.enqueue({"how": "ok"}, handler=kind) for kind in (Faulty, FaultyNext, FaultyNew) for _ in range(4)]
    old = example.start_pool()
    assert wait_until(lambda: completed(example, counting, *jobs), within=40, every=0.1)
    assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 20
    assert len(example.rows("SELECT 1 FROM notifications")) == len(jobs) + 1
    ends = example.rows("SELECT job_id FROM background_job_events WHERE new_status = 'completed'")
    assert len(ends) == len(jobs) + 1
    assert old.poll() is None
    assert new_worker.poll() is None
