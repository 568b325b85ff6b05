"""A network that swallows every packet: two namespaces of our own, and neighbours with wrong addresses for good."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cli.servers.embedded_postgres import Cluster
from nemesis.network import Network
from tests.faults.own_server import own_example
from tests.faults.tcp_proxy import bad_link
from tests.installation import ROOT, ExampleInstallation

HOLD = """
import psycopg, sys
with psycopg.connect(sys.argv[1], autocommit=True) as session:
    session.execute(f"BEGIN; LOCK TABLE {sys.argv[3]}")
    print("locked", flush=True)
    sys.stdin.readline()
    try:
        session.execute(sys.argv[2])
    except psycopg.OperationalError as error:
        print("given up:", error, flush=True)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(os.getpid())
    network.up()
    yield network
    network.down()


@pytest.fixture(scope="module")
def tcp_example(tmp_path_factory: pytest.TempPathFactory, postgres_template: Path) -> Iterator[ExampleInstallation]:
    with own_example(tmp_path_factory.mktemp("veth"), postgres_template, tcp=True) as (_, example):
        yield example


@pytest.mark.root
@pytest.mark.parametrize("question", ["SELECT 1", "SELECT pg_sleep(60)"])
def test_a_session_into_nothing_is_given_up_by_its_client(
    tcp_example: ExampleInstallation, network: Network, question: str
) -> None:
    conninfo = tcp_example.logins.conninfo(
        tcp_example.logins.engine, search_path="turno,pg_temp", application="swallowed", timeouts={}
    )
    assert "tcp_user_timeout=10000" in conninfo
    port = conninfo_to_dict(conninfo)["port"]
    with bad_link(int(str(port)), "plain", address=network.our_ip) as (link_port, _):
        quick = {
            "tcp_user_timeout": "2000",
            "keepalives_idle": "1",
            "keepalives_interval": "1",
            "keepalives_count": "2",
        }
        known = {**conninfo_to_dict(tcp_example.url), "host": network.our_ip, "port": str(link_port)}
        there = make_conninfo(**known | quick)  # type: ignore[arg-type]  # libpq takes words for all of these
        client = subprocess.Popen(
            ["ip", "netns", "exec", network.space, sys.executable, "-c", HOLD, there, question, "turno.leases"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert client.stdout is not None
            assert client.stdin is not None
            assert client.stdout.readline() == "locked\n"
            network.swallow()
            client.stdin.write("go\n")
            client.stdin.flush()
            # The kernel's own patience would be a quarter of an hour.
            assert select.select([client.stdout], [], [], 60)[0]
            assert client.stdout.readline().startswith("given up:")
        finally:
            client.kill()
            client.communicate()


@pytest.mark.root
def test_server_releases_locks_of_a_vanished_client(tmp_path: Path, postgres_template: Path, network: Network) -> None:
    def admit(cluster: Cluster) -> None:
        with (cluster.data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {network.their_ip}/32 scram-sha-256\n")

    settings = {"listen_addresses": f"127.0.0.1,{network.our_ip}"}
    with own_example(tmp_path, postgres_template, tcp=True, settings=settings, before_start=admit) as (_, example):
        login = example.handler_login()
        conninfo = example.logins.conninfo(
            login.role, epoch=login.epoch, search_path=login.schema, application="vanished", timeouts={}
        )
        there = make_conninfo(conninfo, host=network.our_ip)
        client = subprocess.Popen(
            [*network.prefix(), sys.executable, "-c", HOLD, there, "SELECT 1", "customers"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "locked\n"
            network.swallow()
            with example.admin.transaction():
                example.rows("SET LOCAL lock_timeout = '25s'")
                example.rows("LOCK TABLE customers")
        finally:
            client.kill()
            client.communicate()
