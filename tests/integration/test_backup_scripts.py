"""The refusals of deploy/backup, and a tenant's restoration as a whole or not at all; tests/faults rehearses the
rest."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import conninfo_to_dict

from cli.servers.postgres_binaries import find_binaries
from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty

if TYPE_CHECKING:
    from pathlib import Path

    from cli.servers.embedded_postgres import Cluster

SCRIPTS = ROOT / "deploy" / "backup"
# Answers as pg_restore does, of a dump that has the tenant and cannot be restored to its end.
BROKEN = """#!/bin/sh
case "$1" in
--list) echo "1; 2615 1 SCHEMA - {schema} owner" ;;
--data-only) : > "${{2#--file=}}" ;;
*) echo "CREATE SCHEMA {schema}; SELECT 1 / 0;" > "${{2#--file=}}" ;;
esac
"""
# The webhooks that a backup had.
SAVED = """
CREATE TEMP TABLE saved_webhooks AS SELECT * FROM turno.webhooks WITH NO DATA;
ALTER TABLE saved_webhooks ALTER attempts SET DEFAULT 0;
INSERT INTO saved_webhooks (job_id, url) VALUES (:'waiting', 'https://x'), (:'ended', 'https://x');
"""


def environment_of(example: ExampleInstallation, cluster: Cluster) -> dict[str, str]:
    return {
        "PATH": f"{find_binaries()}:{os.environ['PATH']}",
        "PGHOST": str(cluster.socket_directory),
        "PGPORT": str(cluster.port),
        "PGUSER": "postgres",
        "PGPASSWORD": cluster.files.password,
        "PGDATABASE": str(conninfo_to_dict(example.url)["dbname"]),
    }


def put_back(example: ExampleInstallation, cluster: Cluster, folder: Path, slug: str) -> str:
    """Run restore-tenant.sh on a broken backup; return its message, as it must not succeed."""
    (folder / "pg_restore").write_text(BROKEN.format(schema=example.one.schema))
    (folder / "pg_restore").chmod(0o700)
    environment = environment_of(example, cluster)
    done = subprocess.run(
        [SCRIPTS / "restore-tenant.sh", folder, slug],
        env=environment | {"PATH": f"{folder}:{environment['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_tenant_at_work_is_not_restored_nor_by_half(
    example: ExampleInstallation, cluster: Cluster, tmp_path: Path
) -> None:
    def refused(slug: str = "suc0001") -> str:
        return put_back(example, cluster, tmp_path, slug)

    job = example.enqueue({"order_ids": [1]})
    assert refused("suc0009") == "there is no active tenant suc0009; nothing was changed\n"
    assert refused() == "suc0001 is at work: turno tenant set suc0001 --paused; nothing was changed\n"
    claim = example.in_process.claim(job)
    pause = "UPDATE turno.tenants SET paused_at = clock_timestamp() WHERE slug = ANY (%s)"
    example.rows(pause, ["suc0001", "suc0002"])
    assert "jobs of suc0001 are running" in refused()
    assert claim is not None
    example.in_process.execute(claim)
    # The backup has the first tenant alone.
    assert refused("suc0002").startswith("suc0002 is not in the backup: it was added, or added again, after it;")
    assert "division by zero" in refused()
    assert example.job(job)["status"] == "completed"
    example.rows("UPDATE turno.tenants SET paused_at = NULL")


def test_tenant_at_work_or_with_jobs_at_target_is_not_moved(example: ExampleInstallation, cluster: Cluster) -> None:
    def refused(slug: str = "suc0001") -> str:
        done = subprocess.run(
            [SCRIPTS / "move-tenant.sh", example.url, example.url, slug],
            env=environment_of(example, cluster),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0, done.stdout
        return done.stderr

    job = example.enqueue({"order_ids": [1]})
    assert refused("suc0009") == "the new cell has no active tenant suc0009; nothing was changed\n"
    assert refused().startswith("in the new cell suc0001 is at work: turno tenant set suc0001 --paused")
    claim = example.in_process.claim(job)
    example.rows("UPDATE turno.tenants SET paused_at = clock_timestamp()")
    assert refused().startswith("in the new cell jobs of suc0001 are running")
    assert claim is not None
    example.in_process.execute(claim)
    assert refused() == "in the new cell suc0001 has jobs already; nothing was changed\n"
    assert example.job(job)["status"] == "completed"
    example.rows("UPDATE turno.tenants SET paused_at = NULL")


def test_control_rows_of_a_tenant_are_derived(example: ExampleInstallation, cluster: Cluster, tmp_path: Path) -> None:
    example.faulty = True
    waiting, ended, failed = (example.enqueue({"how": how}, handler=Faulty) for how in ("ok", "ok", "permanent"))
    half_done = example.enqueue({"how": "items", "number": 3, "text": "0,2"}, handler=Faulty)
    for job in (ended, failed, half_done):
        claim = example.in_process.claim(job)
        assert claim is not None
        example.in_process.execute(claim)
    letters = "SELECT job_id, outcome, error, items_done, items_failed FROM turno.dead_letters ORDER BY job_id"
    before = example.rows(letters)
    assert [row["job_id"] for row in before] == sorted([failed, half_done])
    (tmp_path / "saved.sql").write_text(SAVED)
    subprocess.run(
        ["psql", "--set=ON_ERROR_STOP=1", "--single-transaction", f"--set=tenant={example.one.id}",
         f"--set=schema={example.one.schema}", f"--set=waiting={waiting}", f"--set=ended={ended}",
         f"--file={tmp_path}/saved.sql", f"--file={SCRIPTS}/derived.sql"],
        env=environment_of(example, cluster), check=True, capture_output=True,
    )  # fmt: skip
    # The webhooks of an ended job were delivered.
    assert example.rows("SELECT job_id, tenant_id FROM turno.webhooks") == [
        {"job_id": waiting, "tenant_id": example.one.id}
    ]
    assert example.rows(letters) == before
    assert example.rows("SELECT 1 FROM turno.tickets") == []


@pytest.mark.parametrize(
    ("script", "asks"),
    [
        ("backup.sh", "which folder?"),
        ("restore.sh", "name the folder of a backup"),
        ("restored.sh", "which database?"),
        ("restore-tenant.sh", "which folder?"),
        ("move-tenant.sh", "from which database?"),
        ("archive-wal.sh", "which segment?"),
    ],
)
def test_script_prompts_for_missing_arguments(script: str, asks: str) -> None:
    requested = subprocess.run(
        [SCRIPTS / script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )
    assert requested.returncode != 0
    assert asks in requested.stderr


def test_log_segment_is_kept_whole_and_never_replaced(tmp_path: Path) -> None:
    kept, path = tmp_path / "kept", tmp_path / "segment"
    kept.mkdir()

    def archive(content: str) -> int:
        path.write_text(content)
        done = subprocess.run([SCRIPTS / "archive-wal.sh", path, "000001", kept], capture_output=True, check=False)
        return done.returncode

    assert (archive("log"), archive("log")) == (0, 0)
    assert archive("another") != 0
    assert {file.name: file.read_text() for file in kept.iterdir()} == {"000001": "log"}
