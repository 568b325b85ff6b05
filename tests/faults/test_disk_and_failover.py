"""A tablespace that is full, and a standby that takes over."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from cli.deadline import becomes_true
from cli.embedded_postgres import Cluster
from tests.faults.own_server import own_world, reconnect
from tests.odd_handlers import Odd


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.root
def test_a_full_disk_fails_the_job_by_name_keeps_nothing_of_it_and_harms_no_other(
    tmp_path: Path, postgres_template: Path
) -> None:
    with (
        small_disk(tmp_path / "tight", 6) as tight,
        own_world(tmp_path / "server", postgres_template, durable=True) as (cluster, world),
    ):
        cluster.files.identity().own(tight)
        world.admin.execute(sql.SQL("CREATE TABLESPACE tight LOCATION {}").format(sql.Literal(str(tight))))
        world.rows("ALTER TABLE customers SET TABLESPACE tight")
        fill = (
            "INSERT INTO customers (id, company_name, tax_condition, country)"
            " SELECT 'F' || n, 'Odd', 'registered', repeat(md5(n::text), 30) FROM generate_series(1, 100000) AS n"
        )
        full = world.enqueue({"how": "run_sql", "text": fill}, handler=Odd)
        world.work(full)
        job = world.job(full)
        assert (job["status"], job["error"]["sqlstate"], job["crashes"]) == ("failed", "53100", 0)
        assert world.rows("SELECT 1 FROM customers WHERE company_name = 'Odd'") == []
        after = world.enqueue({"how": "ok"}, handler=Odd)
        world.work(after)
        assert world.job(after)["status"] == "completed"
        world.stop_workers()
        world.rows("ALTER TABLE customers SET TABLESPACE pg_default")
        world.admin.execute("DROP TABLESPACE tight")


@contextmanager
def standby_of(cluster: Cluster, folder: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Run a streaming copy of the cluster; give its socket folder and its process."""
    identity = cluster.files.identity()
    programs = cluster.files.programs(identity)
    folder.mkdir()
    identity.own(folder)
    as_whom = {"user": identity.user, "group": identity.group, "extra_groups": identity.extra_groups}
    subprocess.run(
        identity.command(programs / "pg_basebackup", "-R", "-c", "fast", "-D", folder / "data", "-d", cluster.url),
        check=True, cwd=folder, capture_output=True, **as_whom,  # type: ignore[call-overload]
    )  # fmt: skip
    sockets = Path(tempfile.mkdtemp(prefix="turno-", dir="/tmp"))
    identity.own(sockets)
    options = {"port": "5432", "listen_addresses": "", "unix_socket_directories": str(sockets), "max_connections": "60"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            identity.command(
                programs / "postgres", "-D", folder / "data",
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")), ends_with="INT",
            ),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder / "data", start_new_session=True, **as_whom,
        )  # type: ignore[call-overload]  # fmt: skip
    try:
        yield str(sockets), process
    finally:
        process.send_signal(signal.SIGINT)  # fast: SIGTERM would wait for the worker's sessions
        process.wait(20)
        shutil.rmtree(sockets, ignore_errors=True)


def test_after_a_failover_the_worker_goes_on_at_the_new_primary(tmp_path: Path, postgres_template: Path) -> None:
    with own_world(tmp_path / "server", postgres_template, durable=True) as (cluster, world):
        primary = cluster.socket_directory
        with standby_of(cluster, tmp_path / "standby") as (sockets, _):
            password = cluster.files.password
            both = (
                f"postgresql://postgres:{password}@/turno?host={primary},{sockets}&port=5432,5432"
                "&target_session_attrs=read-write"
            )
            world.backend = "pool"
            world.extra["DATABASE_URL"] = both
            job_id = world.enqueue({"how": "resume", "text": "ok", "number": 300}, handler=Odd)
            pool = world.start_pool(HEARTBEAT_SECONDS="0.5")
            assert becomes_true(lambda: world.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
            there = f"postgresql://postgres:{password}@/turno?host={sockets}&port=5432"
            lag = "SELECT bool_and(replay_lsn >= pg_current_wal_lsn()) AS same FROM pg_stat_replication"
            assert becomes_true(lambda: world.rows(lag)[0]["same"] is not None, within=20)
            cluster.stop()  # in good order: a standby gets all of it, as with synchronous replication
            with psycopg.connect(there, autocommit=True) as connection:
                assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
            reconnect(world, both)

            def completed() -> bool:
                world.time_passes()
                return bool(world.job(job_id)["status"] == "completed")

            assert becomes_true(completed, within=40, every=0.2)
            assert pool.poll() is None
            assert len(world.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 300
            assert world.job(job_id)["crashes"] == 0
