from __future__ import annotations

import os
import signal
import stat
from typing import TYPE_CHECKING

import psycopg
import pytest

from cli.servers.embedded_postgres import Cluster, ClusterError
from cli.servers.folder_lock import FolderInUseError
from cli.servers.postgres_files import DataFolderError, processes_in
from tests.integration.cli.servers.cluster_process import kill, start_cluster_process
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def own(tmp_path: Path, postgres_template: Path) -> Iterator[Cluster]:
    cluster = Cluster(data=tmp_path / "data", durable=True)
    cluster.files.clone_from(postgres_template)
    yield cluster
    cluster.stop()


def ask(cluster: Cluster, query: str) -> object:
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def keep_a_row(cluster: Cluster) -> None:
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def test_the_shared_cluster_answers_with_its_settings(cluster: Cluster) -> None:
    assert ask(cluster, "SHOW max_connections") == "200"
    assert ask(cluster, "SHOW shared_buffers") == "128MB"
    assert ask(cluster, "SHOW client_connection_check_interval") == "500ms"
    assert ask(cluster, "SHOW fsync") == "off"
    assert ask(cluster, "SHOW listen_addresses") == ""
    assert ask(cluster, "SHOW server_encoding") == "UTF8"


def test_each_test_gets_an_empty_database(database: str, module_database: str) -> None:
    assert database != module_database
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert row == (0,)


def test_every_connection_needs_the_password(cluster: Cluster) -> None:
    rules = (cluster.data / "pg_hba.conf").read_text().splitlines()
    methods = {rule.split()[-1] for rule in rules if rule and not rule.startswith("#")}
    assert methods == {"scram-sha-256"}
    for wrong in (f"host={cluster.socket_directory} user=postgres", cluster.url.replace("postgres:", "postgres:x", 1)):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(wrong, passfile="/dev/null").close()


def test_password_and_sockets_are_for_the_owner_only(cluster: Cluster) -> None:
    assert stat.S_IMODE(cluster.files.password_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(cluster.socket_directory.stat().st_mode) == 0o700
    assert len(str(cluster.socket_directory)) < 80


def test_stop_leaves_no_process_and_no_socket(own: Cluster) -> None:
    own.start()
    sockets = own.socket_directory
    assert own.pid in processes_in(own.data)
    own.stop()
    assert processes_in(own.data) == []
    assert not sockets.exists()
    with pytest.raises(ClusterError, match=r"call start\(\)"):
        _ = own.url


def test_a_durable_cluster_keeps_its_rows_over_a_restart(own: Cluster) -> None:
    with own:
        assert ask(own, "SHOW fsync") == "on"
        keep_a_row(own)
    with own:
        assert ask(own, "SELECT answer FROM kept") == 42


def test_tcp_listens_on_loopback_and_needs_the_password(tmp_path: Path, postgres_template: Path) -> None:
    cluster = Cluster(data=tmp_path / "data", durable=False, tcp=True, settings={"work_mem": "7MB"})
    cluster.files.clone_from(postgres_template)
    with cluster:
        assert f"@127.0.0.1:{cluster.port}/" in cluster.url
        assert ask(cluster, "SHOW work_mem") == "7MB"
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host="127.0.0.1", port=cluster.port, user="postgres", passfile="/dev/null").close()


@pytest.mark.parametrize("crash", ["kill", "restart_immediate"])
def test_a_crashed_server_recovers_under_the_same_url(own: Cluster, crash: str) -> None:
    own.start()
    url = own.url
    keep_a_row(own)
    if crash == "kill":
        own.kill()
        assert processes_in(own.data) == []
        own.start()
    else:
        own.restart_immediate()
    assert own.url == url
    assert ask(own, "SELECT answer FROM kept") == 42


def test_a_killed_postmaster_alone_is_no_obstacle(own: Cluster) -> None:
    own.start()
    keep_a_row(own)
    os.kill(own.pid, signal.SIGKILL)
    own.stop()
    own.start()
    assert ask(own, "SELECT answer FROM kept") == 42


def test_a_stale_pid_file_is_no_obstacle(own: Cluster) -> None:
    # Our own pid: alive, and not a server of this folder.
    (own.data / "postmaster.pid").write_text(f"{os.getpid()}\n{own.data}\n1\n5432\n\n\n\nready\n")
    own.start()
    assert ask(own, "SELECT 1") == 1


def test_a_server_left_by_a_killed_run_is_replaced(own: Cluster) -> None:
    kill(start_cluster_process(own.data, how="in a thread"))
    assert processes_in(own.data)
    own.start()
    assert own.pid in processes_in(own.data)
    assert ask(own, "SELECT 1") == 1


def test_a_server_ends_with_the_process_that_started_it(own: Cluster) -> None:
    kill(start_cluster_process(own.data, how="in the main thread"))
    assert wait_until(lambda: not processes_in(own.data), within=20)


def test_a_second_start_on_the_folder_is_refused(own: Cluster) -> None:
    own.start()
    with pytest.raises(FolderInUseError, match="in use by another process"):
        Cluster(data=own.data, durable=True).start()
    with pytest.raises(ClusterError, match="already started"):
        own.start()
    assert ask(own, "SELECT 1") == 1


def test_failing_server_start_has_a_reason(own: Cluster) -> None:
    own._settings["max_connections"] = "none"
    with pytest.raises(ClusterError, match="max_connections"):
        own.start()
    assert processes_in(own.data) == []


def test_a_missing_password_file_is_named(own: Cluster) -> None:
    own.files.password_file.unlink()
    with own, pytest.raises(DataFolderError, match="put it back"):
        _ = own.url


def test_initdb_reports_the_problem_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "someone's file").touch()
    with pytest.raises(DataFolderError, match="not empty"):
        Cluster(data=tmp_path / "data", durable=True).start()
