"""A tablespace that is full, and a standby that takes over."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from psycopg import sql

from tests.faults.own_server import own_world, reconnect
from tests.faults.steady_client import steady_client
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Odd
from turno.servers.embedded_postgres import Cluster
from turno.servers.wait import wait_until


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


def fill(disk: Path) -> Path:
    """Leave no room on the disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(2**20))
    return ballast


def stopped_by_the_next_segment(world: ExampleInstallation) -> bool:
    """Go on to another file of the log; without room for it the server ends, as it may not lose what it said."""
    try:
        world.rows("SELECT pg_logical_emit_message(false, 'turno', 'so that there is something to switch')")
        world.rows("SELECT pg_switch_wal()")
    except psycopg.OperationalError:
        return True
    return False


@pytest.mark.root
def test_a_full_disk_of_the_log_stops_the_server_and_once_there_is_room_all_goes_on(
    tmp_path: Path, postgres_template: Path
) -> None:
    with small_disk(tmp_path / "wal", 96) as disk:

        def move_log(cluster: Cluster) -> None:
            log = cluster.data / "pg_wal"
            subprocess.run(["cp", "-a", f"{log}/.", disk], check=True)
            shutil.rmtree(log)
            log.symlink_to(disk)
            cluster.files.identity().own(disk)

        small = {"min_wal_size": "32MB", "max_wal_size": "48MB"}
        with own_world(tmp_path / "server", postgres_template, durable=True, settings=small, before_start=move_log) as (
            cluster,
            world,
        ):
            world.backend = "pool"
            long = world.enqueue({"how": "resume", "text": "ok", "number": 2000}, handler=Odd)
            pool = world.start_pool(HEARTBEAT_SECONDS="0.5", DEAD_AFTER_SECONDS="60")
            assert wait_until(lambda: world.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
            reader = Thread(target=pool.communicate)
            reader.start()
            with steady_client(world) as client:
                client.wait_for_more()
                ballast = fill(disk)
                assert wait_until(lambda: stopped_by_the_next_segment(world), within=30)
                before = client.refusals
                assert wait_until(lambda: client.refusals > before + 5, within=20)
                cluster.kill()
                assert pool.poll() is None
                ballast.unlink()
                cluster.start()
                reconnect(world)
                client.wait_for_more()

            def completed() -> bool:
                world.time_passes()
                return world.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]

            assert wait_until(completed, within=60, every=0.2)
            assert pool.poll() is None
            client.assert_none_lost_or_doubled()
            assert len(world.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 2000
            assert world.job(long)["crashes"] == 0
            pool.kill()
            reader.join()


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


def other_end(cluster: Cluster, sockets: str) -> tuple[str, str]:
    """Where the standby is, and where whichever of the two can be written to."""
    password = cluster.files.password
    there = f"postgresql://postgres:{password}@/turno?host={sockets}&port=5432"
    both = (
        f"postgresql://postgres:{password}@/turno?host={cluster.socket_directory},{sockets}&port=5432,5432"
        "&target_session_attrs=read-write"
    )
    return there, both


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_after_a_failover_the_worker_goes_on_at_the_new_primary(
    tmp_path: Path, postgres_template: Path, how: str
) -> None:
    with (
        own_world(tmp_path / "server", postgres_template, durable=True) as (cluster, world),
        standby_of(cluster, tmp_path / "standby") as (sockets, _),
    ):
        there, both = other_end(cluster, sockets)
        world.backend = "pool"
        world.extra["DATABASE_URL"] = both
        world.logins = type(world.logins)(both, world.logins.master_key)
        in_sync = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        world.admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        world.admin.execute("SELECT pg_reload_conf()")
        assert wait_until(lambda: world.rows(in_sync) != [], within=20)
        job_id = world.enqueue({"how": "resume", "text": "ok", "number": 300}, handler=Odd)
        pool = world.start_pool(HEARTBEAT_SECONDS="0.5")
        assert wait_until(lambda: world.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
        reader = Thread(target=pool.communicate)
        reader.start()
        with steady_client(world) as client:
            client.wait_for_more()
            if how == "killed":
                cluster.kill()
            else:
                cluster.stop()
            with psycopg.connect(there, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
                connection.execute("SELECT pg_reload_conf()")
                assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
            client.wait_for_more()
        reconnect(world, both)

        def completed() -> bool:
            world.time_passes()
            return world.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]

        assert wait_until(completed, within=40, every=0.2)
        assert pool.poll() is None
        assert len(world.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 300
        assert world.job(job_id)["crashes"] == 0
        client.assert_none_lost_or_doubled()
        pool.kill()
        reader.join()
