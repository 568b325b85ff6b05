"""docs/deploying.md, done: the next release is installed and started beside the old one while people submit jobs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.repeating import Repeating
from turno.client import Client, ClientError, Job, Unavailable
from turno.tenancy.catalog import check
from turno.testing.checker import Checker
from turno.testing.wait import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]

FOLDERS = ("app", "cli", "handlers", "imports", "nemesis", "reports", "tax_authority", "tenants", "tests", "turno")
# Code that relies on the present columns, or on an earlier plan, fails.
A_COLUMN_MORE_EVERYWHERE = """
DO $$
DECLARE
    found regclass;
BEGIN
    FOR found IN
        SELECT c.oid FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
          AND c.relowner = current_user::regrole AND c.relname NOT LIKE '%migrations'
          -- A function that returns rows of a table is changed along with it.
          AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.prorettype = c.reltype)
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN of_next_release text', found);
    END LOOP;
END $$;
"""
RECORDED = "    RETURN stop;\n"
MARKED = "    UPDATE background_jobs SET of_next_release = 'here' WHERE id = p_job;\n"


class Release:
    """A tree of code, and the processes that run it."""

    def __init__(self, example: ExampleInstallation, tree: Path, name: str) -> None:
        self._example = example
        self._extra = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(tree)}
        port = free_port()
        self.web = DemoWeb(
            port=port,
            environment=example.environment
            | self._extra
            | {"TURNO_WEB_BIND": f"127.0.0.1:{port}", "TURNO_WEB_WORKERS": "1"},
            log=example.folder / f"web-{name}.log",
        )

    def start(self, **extra: str) -> None:
        """Start its web and a pool."""
        self.web.start()
        self.pool = self._example.start_pool(TURNO_MAX_CHILDREN="4", **self._extra, **extra)

    def stop(self) -> None:
        """Stop both as a service's manager does, and demand that they end."""
        self.web.stop()
        self.pool.terminate()
        assert self.pool.wait(60) == 0

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "turno.commands.main", *command],
            env=self._example.environment | self._extra | {"TURNO_ADMIN_DATABASE_URL": self._example.url},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Callers(Repeating):
    """Submit for both tenants all the while, to the webs that the proxy has in turn at that moment."""

    pause = 0.03

    def __init__(self, example: ExampleInstallation, webs: list[DemoWeb]) -> None:
        super().__init__()
        self.webs = webs
        self.answers: list[int | str] = []
        self.accepted: list[tuple[UUID, str]] = []
        self.repeated = 0
        self._example = example
        self._slugs = list(example.tenants)
        self._numbers = count()

    def once(self) -> None:
        number = next(self._numbers)
        slug, web = self._slugs[number % len(self._slugs)], self.webs[number % len(self.webs)]
        try:
            job = self._submit(self._example.client(web, tenant=slug), f"key-{number}")
        except ClientError as error:
            self.answers.append(str(error))
        else:
            self.answers.append(202)
            self.accepted.append((UUID(job.id), slug))

    def _submit(self, client: Client, key: str) -> Job:
        while True:
            try:
                return client.submit("faulty", {"how": "ok"}, key=key)
            except Unavailable as error:
                if error.kind != "tenant-busy":
                    raise
                self.repeated += 1

    def go_on(self, more: int = 20) -> bool:
        """Wait for this number of further answers; all of all must have been accepted."""
        target = len(self.answers) + more
        answered = wait_until(lambda: len(self.answers) >= target, within=60)
        assert set(self.answers) == {202}
        return answered


@pytest.fixture
def next_tree(tmp_path: Path) -> Path:
    """The next release: every table has a column more, every function another text, and one writes the column."""
    tree = tmp_path / "next"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("control", "tenant"):
        steps = tree / "turno" / "migrations" / part / "schema"
        version = 1 + max(int(step.name[:4]) for step in steps.glob("*.sql"))
        (steps / f"{version:04d}_next.sql").write_text(A_COLUMN_MORE_EVERYWHERE)
        for function in (steps.parent / "functions").glob("*.sql"):
            function.write_text(function.read_text() + "\n-- of the next release\n")
    function = tree / "turno" / "migrations" / "tenant" / "functions" / "job_checkpoint.sql"
    text = function.read_text()
    assert text.count(RECORDED) == 1
    function.write_text(text.replace(RECORDED, MARKED + RECORDED))
    return tree


@pytest.fixture
def releases(example: ExampleInstallation, next_tree: Path) -> Iterator[tuple[Release, Release]]:
    example.backend, example.faulty = "pool", True
    example.extra |= {
        "TURNO_LIMITS": "pending_jobs_per_user=1000000,commands_per_minute_per_user=0",
        "TURNO_LOG_LEVEL": "ERROR",
    }
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    both = Release(example, ROOT, "old"), Release(example, next_tree, "new")
    yield both
    for release in both:
        release.web.stop()


def test_two_releases_side_by_side_and_back_while_people_submit(
    example: ExampleInstallation, releases: tuple[Release, Release], tmp_path: Path
) -> None:
    old, new = releases
    long_jobs = [
        (example.enqueue({"how": "checkpoint_until_signal"}, handler=Faulty, tenant=tenant), tenant.slug)
        for tenant in (example.one, example.other)
    ]

    def read(jobs: list[tuple[UUID, str]]) -> list[dict[str, Any]]:
        query = "SELECT status, errors, crashes FROM background_jobs WHERE id = ANY (%s)"
        of = {slug: [job_id for job_id, theirs in jobs if theirs == slug] for slug in example.tenants}
        return [row for slug, ids in of.items() for row in example.rows(query, ids, tenant=example.tenants[slug])]

    def all_done(jobs: list[tuple[UUID, str]]) -> bool:
        return wait_until(lambda: {row["status"] for row in read(jobs)} == {"completed"}, within=60)

    def marked() -> bool:
        query = "SELECT of_next_release FROM background_jobs WHERE id = %s"
        return all(
            example.rows(query, job_id, tenant=example.tenants[slug])[0]["of_next_release"] == "here"
            for job_id, slug in long_jobs
        )

    old.start(MEET=str(tmp_path))
    with Callers(example, [old.web]) as callers:
        assert callers.go_on()
        # 1. The schemas, while the old release serves and works alone.
        assert "nothing" not in new.run("db", "migrate", "--dry-run")
        new.run("db", "migrate", "--canary", "suc0001", "--yes")
        assert check(example.admin, example.logins) == []
        assert wait_until(marked, within=30)
        # A request that met the lock of its tenant's migration was refused with a retry; from here on none is.
        repeated = callers.repeated
        alone = len(callers.accepted)
        assert callers.go_on(40)
        assert all_done(callers.accepted[alone:])
        # 2. The new release beside it.
        new.start(MEET=str(tmp_path))
        callers.webs = [old.web, new.web]
        assert callers.go_on(40)
        # 3. The old one goes: first out of the proxy, then to its end.
        callers.webs = [new.web]
        assert callers.go_on()
        old.stop()
        assert callers.go_on(40)
        # 4. And back, on the schemas of the next release: the way is the same.
        old.start(MEET=str(tmp_path))
        callers.webs = [new.web, old.web]
        assert callers.go_on()
        callers.webs = [old.web]
        assert callers.go_on()
        new.stop()
        assert callers.go_on(40)
        (tmp_path / "go").touch()
    jobs = callers.accepted + long_jobs
    assert all_done(jobs)
    assert set(callers.answers) == {202}
    assert callers.repeated == repeated
    assert len(read(jobs)) == len(jobs)
    assert {(row["errors"], row["crashes"]) for row in read(jobs)} == {(0, 0)}
    old.stop()
    assert Checker(example.url, example.tenants.values()).violations(settled=True) == []
