"""A server is lost after an accident; its base backup and the archived log bring back all until a moment before it."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest

from cli.servers.embedded_postgres import Cluster
from tests.faults.own_server import own_example, reconnect
from tests.faults.steady_client import steady_client
from tests.faults.test_backup_and_restore import (
    ONCE,
    QUICK,
    SCRIPTS,
    all_ended,
    apart,
    done,
    enqueue_invoicing,
    environment_of,
    follow,
    script,
    stop,
)
from turno.tenancy.catalog import check
from turno.testing.checker import Checker
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.deep


@contextmanager
def restored(base: Path, archive: Path, first: Cluster, moment: str) -> Iterator[Cluster]:
    """A server that starts from the base backup and replays the archived log until the moment."""
    cluster = Cluster(
        data=base,
        durable=False,
        max_connections=60,
        settings={
            "restore_command": f"cp {archive}/%f %p",
            "recovery_target_time": moment,
            "recovery_target_action": "promote",
        },
    )
    cluster.files.password_file.write_text(first.files.password)
    (base / "recovery.signal").touch()
    for path in (cluster.files.password_file, base, *base.rglob("*")):
        cluster.files.identity().own(path)
    with cluster:

        def promoted() -> bool:
            with psycopg.connect(cluster.url) as connection:
                return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)

        assert wait_until(promoted, within=60)
        yield cluster
    cluster.files.remove()


def test_state_before_the_moment_is_restored_and_resumes(tmp_path: Path, postgres_template: Path) -> None:
    base, archive = tmp_path / "base", tmp_path / "archive"
    archive.mkdir()
    archiving = {"archive_mode": "on", "archive_command": f"{SCRIPTS}/archive-wal.sh %p %f {archive}"}
    own = partial(own_example, settings=archiving, before_start=lambda cluster: cluster.files.identity().own(archive))
    with own(tmp_path / "first", postgres_template) as (first, example):
        example.backend = "pool"
        enqueue_invoicing(example)
        pool = example.start_pool(**QUICK)
        with steady_client(example) as client:
            client.wait_for_more()
            taken = subprocess.run(
                ["pg_basebackup", f"--pgdata={base}", "--checkpoint=fast"],
                env=environment_of(first), capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert taken.returncode == 0, taken.stderr
            client.wait_for_more()
            before = set(client.accepted.values())
            (row,) = example.rows("SELECT clock_timestamp()::text AS moment")
            example.rows("DELETE FROM order_lines")  # the accident
            client.wait_for_more()
        (last,) = example.rows("SELECT pg_walfile_name(pg_switch_wal()) AS name")
        assert wait_until((archive / last["name"]).exists, within=30)
        pool.kill()
        pool.communicate()
        first.kill()
        with restored(base, archive, first, row["moment"]) as second:
            reply = done(script(second, "restored.sh"))
            reconnect(example, second.url_of("turno"))
            assert example.rows("SELECT 1 FROM order_lines LIMIT 1") != []
            assert before <= {job["id"] for job in example.rows("SELECT id FROM background_jobs")}
            assert example.rows("SELECT 1 FROM turno.tenants WHERE paused_at IS NULL") == []
            follow(example, reply)
            assert check(example.admin, example.logins) == []
            pool = example.start_pool(**QUICK)
            assert wait_until(lambda: all_ended(example), within=60, every=0.1)
            # The worker that was lost with the server is forgotten.
            assert wait_until(lambda: example.rows("SELECT pid FROM turno.workers") == [{"pid": pool.pid}], within=60)
            stop(pool)
            assert example.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]
            assert Checker(example.url, example.tenants.values(), effects=ONCE).violations(settled=True) == []
            assert apart(example)
            for session in (example.admin, example.web, example.engine):
                session.close()
