"""A server starts with each file of deploy/postgresql, has every value of it, and room for the file's limits."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.servers.embedded_postgres import Cluster
from cli.servers.system_packages import POSTGRES_15
from tests.installation import ROOT
from tests.quick_servers import template_of
from turno.commands.doctor import sessions_of_a_web, sessions_of_a_worker
from turno.settings import Settings

FILES = sorted((ROOT / "deploy" / "postgresql").glob("*.conf"))
OTHERS = 20  # the provisioner, backups, monitoring and people
TABLES_OF_THE_APPLICATION = 20

each_size = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def values(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+) = (\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE))


def gigabytes(text: str) -> float:
    return int(text[:-2]) * {"MB": 2**-10, "GB": 1}[text[-2:]]


def start(data: Path, file: Path, template: Path, binaries: Path | None) -> list[Any]:
    """Start a server with the file included; return the problems of its settings."""
    cluster = Cluster(data=data, durable=True, binaries=binaries)
    cluster.files.clone_from(template)
    # Of the tests' own values only the values for reaching the server, and for fitting in here.
    cluster._settings.clear()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    if gigabytes(values(file)["shared_buffers"]) > memory / 4:
        cluster._settings["shared_buffers"] = "128MB"
    with (data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write(f"\ninclude = '{data / 'size.conf'}'\n")
    (data / "size.conf").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    cluster.files.identity().own(data / "size.conf")
    with cluster, psycopg.connect(cluster.url) as connection:
        result = connection.execute(
            "SELECT f.name, f.setting, f.error, s.pending_restart, s.source FROM pg_file_settings f"
            " LEFT JOIN pg_settings s USING (name) WHERE f.sourcefile LIKE '%/size.conf'"
        ).fetchall()
    assert {name for name, *_ in result} == values(file).keys()
    expected = (None, False, "configuration file")
    fitted = cluster._settings.keys()
    return [row for row in result if row[2:] != expected and row[0] not in fitted]


@pytest.mark.deep
@each_size
def test_a_server_starts_with_it_and_has_every_value(file: Path, tmp_path: Path, postgres_template: Path) -> None:
    assert start(tmp_path / "data", file, postgres_template, None) == []


@pytest.mark.deep
@pytest.mark.postgres15
def test_the_oldest_server_knows_every_name(tmp_path: Path) -> None:
    program = POSTGRES_15.require()
    assert start(tmp_path / "data", FILES[0], template_of(program.parent), program.parent) == []


@each_size
def test_server_has_the_promised_sessions(file: Path) -> None:
    match = re.search(r"Room for (\d+) webs? and (\d+) pools with ([A-Za-z0-9_= ]+),$", file.read_text(), re.MULTILINE)
    assert match is not None
    variables = dict(pair.split("=", 1) for pair in match[3].split())
    settings = Settings.read(variables | {"QUEUE_BACKEND": "pool"})
    needed = int(match[1]) * sessions_of_a_web(settings) + int(match[2]) * sessions_of_a_worker(settings) + OTHERS
    available = int(values(file)["max_connections"]) - int(values(file)["superuser_reserved_connections"])
    assert 0.7 * available < needed <= available


@each_size
def test_locks_suffice_to_dump_all_tables_at_once(file: Path) -> None:
    folders = ("migrations/tenant/schema", "capabilities/*/sql/tenant/schema")
    steps = [step for folder in folders for step in (ROOT / "turno").glob(f"{folder}/*.sql")]
    ours = sum(len(re.findall(r"^CREATE TABLE", step.read_text(), re.MULTILINE)) for step in steps)
    (tenants,) = re.findall(r"at the same time: (\d+) tenants, each with 20 tables", file.read_text())
    locks = int(values(file)["max_locks_per_transaction"]) * int(values(file)["max_connections"])
    assert locks >= int(tenants) * (ours + TABLES_OF_THE_APPLICATION)


def test_all_sizes_decide_the_same_things() -> None:
    assert len({frozenset(values(file)) for file in FILES}) == 1
