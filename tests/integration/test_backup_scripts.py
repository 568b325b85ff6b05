"""What deploy/backup refuses, and that a tenant is put back whole or not at all; tests/faults rehearses the rest."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.installation import ROOT, ExampleInstallation
from turno.servers.postgres_binaries import find_binaries

if TYPE_CHECKING:
    from pathlib import Path

    from turno.servers.embedded_postgres import Cluster

# Answers as pg_restore does, of a dump that has the tenant and cannot be restored to its end.
BROKEN = """#!/bin/sh
case "$1" in
--list) echo "1; 2615 1 SCHEMA - {schema} owner" ;;
*) echo "CREATE SCHEMA {schema}; SELECT 1 / 0;" > "${{2#--file=}}" ;;
esac
"""


def put_back(world: ExampleInstallation, cluster: Cluster, folder: Path, slug: str) -> str:
    """Run restore-tenant.sh on a backup that is broken; return what it says, as it must not succeed."""
    (folder / "pg_restore").write_text(BROKEN.format(schema=world.one.schema))
    (folder / "pg_restore").chmod(0o700)
    environment = {
        "PATH": f"{folder}:{find_binaries()}:{os.environ['PATH']}",
        "PGHOST": str(cluster.socket_directory),
        "PGPORT": str(cluster.port),
        "PGUSER": "postgres",
        "PGPASSWORD": cluster.files.password,
        "PGDATABASE": str(conninfo_to_dict(world.url)["dbname"]),
    }
    done = subprocess.run(
        [ROOT / "deploy" / "backup" / "restore-tenant.sh", folder, slug],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_a_tenant_is_not_put_back_while_it_works_and_never_by_half(
    world: ExampleInstallation, cluster: Cluster, tmp_path: Path
) -> None:
    def refused(slug: str = "suc0001") -> str:
        return put_back(world, cluster, tmp_path, slug)

    job = world.enqueue({"order_ids": [1]})
    assert refused("suc0009") == "there is no active tenant suc0009; nothing was changed\n"
    assert refused() == "suc0001 is at work: turno tenant set suc0001 --paused; nothing was changed\n"
    claim = world.here.claim(job)
    pause = "UPDATE turno.tenants SET paused_at = clock_timestamp() WHERE slug = ANY (%s)"
    world.rows(pause, ["suc0001", "suc0002"])
    assert "jobs of suc0001 are running" in refused()
    assert claim is not None
    world.here.execute(claim)
    # The backup has the first tenant alone.
    assert refused("suc0002").startswith("suc0002 is not in the backup: it was added, or added again, after it;")
    assert "division by zero" in refused()
    assert world.job(job)["status"] == "completed"


@pytest.mark.parametrize("script", sorted((ROOT / "deploy" / "backup").glob("*.sh")), ids=lambda script: script.name)
def test_a_script_asks_which_folder(script: Path) -> None:
    asked = subprocess.run([script], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert asked.returncode != 0
    assert "which folder?" in asked.stderr
