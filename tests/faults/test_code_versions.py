"""Two releases side by side, each in a separate tree: a worker runs the jobs of its code and leaves the rest."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Odd
from turno.servers.wait import wait_until

ROOMS = ("app", "cli", "handlers", "imports", "nemesis", "reports", "tax_authority", "tenants", "tests", "turno")


class OddNext(Odd):
    """The next release's version of the handler."""

    version = 2


class OddNew(Odd):
    type = "odd_new"


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a second version of one handler, and another handler more."""
    tree = tmp_path_factory.mktemp("next-release")
    for room in ROOMS:
        shutil.copytree(ROOT / room, tree / room, ignore=shutil.ignore_patterns("__pycache__"))
    handlers = tree / "tests" / "misbehaving_handlers.py"
    text = handlers.read_text()
    classes = (
        "class OddNext(Odd):\n    version = 2\n\n\n"
        'class OddNew(Odd):\n    type = "odd_new"\n\n\nREGISTRY = Registry(\n    {\n'
        '        "odd_new": "tests.misbehaving_handlers:OddNew",\n'
    )
    text = text.replace("REGISTRY = Registry(\n    {\n", classes)
    text = text.replace('"tests.misbehaving_handlers:Odd",', '"tests.misbehaving_handlers:OddNext",')
    handlers.write_text(text)
    return tree


@pytest.fixture(autouse=True)
def pool(world: ExampleInstallation) -> None:
    world.odd = True
    world.backend = "pool"
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")


@pytest.fixture
def new_worker(world: ExampleInstallation, next_release: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A resident worker of the next release."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "turno.commands.main", "work"],
        cwd=next_release,
        env=world.environment | {"PYTHONPATH": str(next_release)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield worker
    worker.kill()
    worker.wait()


def completed(world: ExampleInstallation, *jobs: object) -> bool:
    world.time_passes()
    found = world.rows("SELECT id FROM background_jobs WHERE status = 'completed'")
    return {row["id"] for row in found} >= set(jobs)


def test_an_old_worker_leaves_a_type_it_does_not_know(world: ExampleInstallation) -> None:
    unknown = world.enqueue({"how": "ok"}, handler=OddNew)
    for _ in range(999):
        world.enqueue({"how": "ok"}, handler=OddNew)
    known = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(3)]
    old = world.start_pool()
    assert wait_until(lambda: completed(world, *known), within=20)
    assert (world.job(unknown)["status"], world.job(unknown)["attempt"]) == ("pending", 0)
    ticket = world.ticket(unknown)
    assert ticket is not None
    assert (ticket["state"], ticket["attempt"]) == ("ready", 0)
    waiting = {"status": "pending", "attempt": 0, "n": 1000}
    of_unknown_type = "SELECT status, attempt, count(*) AS n FROM background_jobs WHERE type = 'odd_new' GROUP BY 1, 2"
    assert world.rows(of_unknown_type) == [waiting]
    assert old.poll() is None


def test_an_old_worker_leaves_a_version_newer_than_its_code(world: ExampleInstallation) -> None:
    newer = world.enqueue({"how": "ok", "a_field_of_the_next_release": 1}, handler=OddNext)
    known = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(3)]
    old = world.start_pool()
    assert wait_until(lambda: completed(world, *known), within=20)
    job = world.job(newer)
    assert (job["status"], job["attempt"], job["errors"], job["crashes"]) == ("pending", 0, 0, 0)
    assert old.poll() is None


def test_two_releases_share_the_work_and_each_job_runs_once(
    world: ExampleInstallation, new_worker: subprocess.Popen[bytes]
) -> None:
    counting = world.enqueue({"how": "resume", "text": "kill_self", "number": 20}, handler=Odd)
    jobs = [world.enqueue({"how": "ok"}, handler=kind) for kind in (Odd, OddNext, OddNew) for _ in range(4)]
    old = world.start_pool()
    assert wait_until(lambda: completed(world, counting, *jobs), within=40, every=0.1)
    assert len(world.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 20
    assert len(world.rows("SELECT 1 FROM notifications")) == len(jobs) + 1
    ends = world.rows("SELECT job_id FROM background_job_events WHERE new_status = 'completed'")
    assert len(ends) == len(jobs) + 1
    assert old.poll() is None
    assert new_worker.poll() is None
