from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from cli.servers import unprivileged
from cli.servers.embedded_postgres import Cluster
from cli.servers.postgres_binaries import find_binaries
from cli.servers.postgres_files import processes_in
from cli.servers.unprivileged import (
    CannotLeaveRootError,
    Identity,
    copied_to,
    copy_programs,
    identity_for,
    programs_for,
)
from tests.integration.cli.servers.cluster_process import kill, start_cluster_process
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, which pytest's own temporary folders are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unprivileged, "namespaces_allowed", lambda: False)


@pytest.mark.root
@pytest.mark.usefixtures("no_namespaces")
def test_private_binaries_run_as_nobody_without_namespaces(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "private"
    binaries = copied_to(private, find_binaries())
    copy_programs(find_binaries(), private)
    private.chmod(0o700)
    monkeypatch.setenv("PG_BIN", str(binaries))
    with Cluster(data=open_folder / "data", durable=True) as cluster, psycopg.connect(cluster.url) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("postgres",)
        assert Path(f"/proc/{cluster.pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert (
            Path(f"/proc/{cluster.pid}/exe").readlink()
            == copied_to(open_folder / "postgres-programs", binaries) / "postgres"
        )
    assert processes_in(cluster.data) == []
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


@pytest.mark.root
@pytest.mark.usefixtures("no_namespaces")
def test_unreachable_folder_is_explained_and_kept(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(CannotLeaveRootError, match="run as an ordinary user, or choose a folder"):
        Cluster(data=tmp_path / "data", durable=True).start()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.root
def test_namespace_keeps_files_owned_by_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with Cluster(data=tmp_path / "data", durable=False) as cluster:
        assert cluster.data.stat().st_uid == 0
        assert Path(f"/proc/{cluster.pid}").stat().st_uid == 0


@pytest.mark.root
def test_an_ordinary_user_runs_a_cluster_too(open_folder: Path) -> None:
    copy_programs(find_binaries(), open_folder / "postgres")
    binaries = copied_to(open_folder / "postgres", find_binaries())
    home = open_folder / "home"
    home.mkdir()
    shutil.chown(home, "nobody")
    ordinary = start_cluster_process(
        home / "data", how="as nobody", environment={**os.environ, "PG_BIN": str(binaries)}
    )
    try:
        with psycopg.connect(ordinary.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert (home / "data").owner() == "nobody"
    finally:
        kill(ordinary)
    assert wait_until(lambda: not processes_in(home / "data"), within=20)


def test_an_ordinary_user_needs_no_disguise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert identity_for(tmp_path) == Identity()
    assert Identity().command("postgres", "-D", tmp_path) == ["postgres", "-D", str(tmp_path)]


def test_unusable_programs_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken" / "bin").mkdir(parents=True)
    with pytest.raises(CannotLeaveRootError, match="broken"):
        programs_for(Identity(), tmp_path / "broken" / "bin", tmp_path / "copy")
