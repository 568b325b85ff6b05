"""A tablespace that is full, and a standby that takes over."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from psycopg import sql

from cli.servers.embedded_postgres import Cluster
from cli.servers.postgres_files import processes_in
from tests.faults.own_server import own_example, reconnect
from tests.faults.standby import other_end, standby_of, synchronous
from tests.faults.steady_client import steady_client
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.runner.session import HandlerConnection
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import LoginRefused, handler_session, service_session
from turno.testing.wait import wait_until
from turno.worker import session_watch
from turno.worker.crash_reasons import SERVER_REPLACED

STREAMING = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.root
def test_full_disk_fails_one_job_by_name(tmp_path: Path, postgres_template: Path) -> None:
    with (
        small_disk(tmp_path / "tight", 6) as tight,
        own_example(tmp_path / "server", postgres_template, durable=True) as (cluster, example),
    ):
        cluster.files.identity().own(tight)
        example.admin.execute(sql.SQL("CREATE TABLESPACE tight LOCATION {}").format(sql.Literal(str(tight))))
        example.rows("ALTER TABLE customers SET TABLESPACE tight")
        fill = (
            "INSERT INTO customers (id, company_name, tax_condition, country)"
            " SELECT 'F' || n, 'Faulty', 'registered', repeat(md5(n::text), 30) FROM generate_series(1, 100000) AS n"
        )
        full = example.enqueue({"how": "run_sql", "text": fill}, handler=Faulty)
        example.work(full)
        job = example.job(full)
        assert (job["status"], job["error"]["sqlstate"], job["crashes"]) == ("failed", "53100", 0)
        assert example.rows("SELECT 1 FROM customers WHERE company_name = 'Faulty'") == []
        after = example.enqueue({"how": "ok"}, handler=Faulty)
        example.work(after)
        assert example.job(after)["status"] == "completed"
        example.stop_workers()
        example.rows("ALTER TABLE customers SET TABLESPACE pg_default")
        example.admin.execute("DROP TABLESPACE tight")


def fill(disk: Path) -> Path:
    """Leave no room on the disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(2**20))
    return ballast


def stopped_by_the_next_segment(example: ExampleInstallation) -> bool:
    """Move to another file of the log; without room for it the server ends, as it may not lose a promised commit."""
    try:
        example.rows("SELECT pg_logical_emit_message(false, 'turno', 'so that there is something to switch')")
        example.rows("SELECT pg_switch_wal()")
    except psycopg.OperationalError:
        return True
    return False


@pytest.mark.root
def test_full_log_disk_stops_server_and_recovers(tmp_path: Path, postgres_template: Path) -> None:
    with small_disk(tmp_path / "wal", 96) as disk:

        def move_log(cluster: Cluster) -> None:
            log = cluster.data / "pg_wal"
            subprocess.run(["cp", "-a", f"{log}/.", disk], check=True)
            shutil.rmtree(log)
            log.symlink_to(disk)
            cluster.files.identity().own(disk)

        small = {"min_wal_size": "32MB", "max_wal_size": "48MB"}
        with own_example(
            tmp_path / "server", postgres_template, durable=True, settings=small, before_start=move_log
        ) as (
            cluster,
            example,
        ):
            example.backend = "pool"
            long = example.enqueue({"how": "resume", "text": "ok", "number": 2000}, handler=Faulty)
            pool = example.start_pool(TURNO_HEARTBEAT_SECONDS="0.5", TURNO_DEAD_AFTER_SECONDS="60")
            assert wait_until(lambda: example.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
            reader = Thread(target=pool.communicate)
            reader.start()
            with steady_client(example) as client:
                client.wait_for_more()
                ballast = fill(disk)
                assert wait_until(lambda: stopped_by_the_next_segment(example), within=30)
                before = client.refusals
                assert wait_until(lambda: client.refusals > before + 5, within=20)
                cluster.kill()
                assert pool.poll() is None
                ballast.unlink()
                cluster.start()
                reconnect(example)
                client.wait_for_more()

            def completed() -> bool:
                example.time_passes()
                return example.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]

            assert wait_until(completed, within=60, every=0.2)
            assert pool.poll() is None
            client.assert_none_lost_or_doubled()
            assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 2000
            assert example.job(long)["crashes"] == 0
            pool.kill()
            reader.join()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_worker_continues_at_the_new_primary(tmp_path: Path, postgres_template: Path, how: str) -> None:
    with (
        own_example(tmp_path / "server", postgres_template, durable=True) as (cluster, example),
        standby_of(cluster, tmp_path / "standby") as (sockets, _),
    ):
        there, both = other_end(cluster, sockets)
        example.backend = "pool"
        example.extra["DATABASE_URL"] = both
        example.logins = type(example.logins)(both, example.logins.master_key)
        synchronous(example)
        job_id = example.enqueue({"how": "resume", "text": "ok", "number": 300}, handler=Faulty)
        pool = example.start_pool(TURNO_HEARTBEAT_SECONDS="0.5")
        assert wait_until(lambda: example.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
        reader = Thread(target=pool.communicate)
        reader.start()
        with steady_client(example) as client:
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
        reconnect(example, both)

        def completed() -> bool:
            example.time_passes()
            return example.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]

        assert wait_until(completed, within=40, every=0.2)
        assert pool.poll() is None
        assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 300
        assert example.job(job_id)["crashes"] == 0
        client.assert_none_lost_or_doubled()
        pool.kill()
        reader.join()


def test_login_at_a_standby_is_an_outage_not_a_refusal(tmp_path: Path, postgres_template: Path) -> None:
    with (
        own_example(tmp_path / "server", postgres_template, durable=True) as (cluster, example),
        standby_of(cluster, tmp_path / "standby") as (sockets, _),
    ):
        _, both = other_end(cluster, sockets)
        logins = type(example.logins)(both, example.logins.master_key)
        login = example.handler_login()
        assert wait_until(lambda: example.rows(STREAMING) != [], within=20)
        cluster.kill()
        with pytest.raises(psycopg.OperationalError, match="session is read-only") as standby:
            handler_session(logins, login, application="test", kind=HandlerConnection)
        assert not isinstance(standby.value, LoginRefused)
        cluster.start()
        reconnect(example)


def test_a_promoted_server_behind_the_same_address_is_noticed(tmp_path: Path, postgres_template: Path) -> None:
    with own_example(tmp_path / "server", postgres_template, durable=True) as (cluster, example):

        def server() -> session_watch.Server:
            with service_session(example.logins, example.logins.engine, application="test") as session:
                return session_watch.measure(Engine.on(session), more_than=0).server

        first = server()
        cluster.kill()
        cluster.start()
        restarted = server()
        cluster.kill()
        (signal_file := cluster.data / "standby.signal").touch()
        cluster.files.identity().own(signal_file)
        cluster.start()
        reconnect(example)
        assert example.admin.execute("SELECT pg_promote()").fetchone() == (True,)
        assert not restarted.replaces(first)
        assert server().replaces(restarted)


def freeze(cluster: Cluster) -> None:
    """Stop the server's processes: its kernel still accepts packets, and nothing answers."""
    for pid in processes_in(cluster.data):
        os.kill(pid, signal.SIGSTOP)


@pytest.mark.deep
def test_job_at_a_hung_primary_is_given_back(tmp_path: Path, postgres_template: Path) -> None:
    with (
        own_example(tmp_path / "server", postgres_template, durable=True) as (cluster, example),
        standby_of(cluster, tmp_path / "standby") as (sockets, _),
    ):
        there, both = other_end(cluster, sockets)
        example.backend = "pool"
        example.extra["DATABASE_URL"] = both
        example.logins = type(example.logins)(both, example.logins.master_key)
        assert wait_until(lambda: example.rows(STREAMING) != [], within=20)
        job_id = example.enqueue({"how": "resume", "text": "ok", "number": 3000}, handler=Faulty)
        pool = example.start_pool(TURNO_DEAD_AFTER_SECONDS="40")
        assert wait_until(lambda: example.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
        freeze(cluster)
        with ExitStack() as frozen:
            frozen.callback(cluster.kill)  # an orderly stop would wait for processes that are stopped
            frozen.callback(example.stop_workers)
            with psycopg.connect(there, autocommit=True) as connection:
                assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
            reconnect(example, there)
            released = "SELECT error FROM background_job_attempts WHERE job_id = %s AND outcome = 'released'"
            assert wait_until(lambda: example.rows(released, job_id) != [], within=60)
            assert example.rows(released, job_id)[0]["error"]["message"] == SERVER_REPLACED
            assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=60)
            assert example.job(job_id)["crashes"] == 0
            assert pool.poll() is None
