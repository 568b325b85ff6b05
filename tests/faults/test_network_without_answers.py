"""A network that swallows every packet: two namespaces of our own, and neighbours with wrong addresses for good."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.faults.own_server import own_world
from tests.faults.tcp_proxy import bad_link
from tests.world import ROOT, World

NOBODY = "02:00:00:00:00:99"
HOLD = """
import psycopg, sys
with psycopg.connect(sys.argv[1], autocommit=True) as session:
    session.execute("BEGIN; LOCK TABLE turno.leases")
    print("locked", flush=True)
    sys.stdin.readline()
    try:
        session.execute(sys.argv[2])
    except psycopg.OperationalError as error:
        print("given up:", error, flush=True)
"""


class Network:
    """A veth pair: our end on this machine, the other in a namespace."""

    def __init__(self, number: int) -> None:
        self.space, self.ours, self.theirs = f"turno-{number}", f"tu{number % 10**6}a", f"tu{number % 10**6}b"
        # Another run of these tests on the same machine has another number.
        self.our_ip, self.their_ip = f"198.18.{number % 250}.1", f"198.18.{number % 250}.2"

    def ip(self, *arguments: str, inside: bool = False) -> None:
        where = ("-n", self.space) if inside else ()
        subprocess.run(["ip", *where, *arguments], check=True, capture_output=True)

    def up(self) -> None:
        self.ip("netns", "add", self.space)
        self.ip("link", "add", self.ours, "type", "veth", "peer", "name", self.theirs, "netns", self.space)
        self.ip("address", "add", f"{self.our_ip}/30", "dev", self.ours)
        self.ip("link", "set", self.ours, "up")
        self.ip("address", "add", f"{self.their_ip}/30", "dev", self.theirs, inside=True)
        self.ip("link", "set", self.theirs, "up", inside=True)

    def swallow(self) -> None:
        """From now on no packet arrives on either side, and nobody is told."""
        wrong = ("lladdr", NOBODY, "nud", "permanent")
        self.ip("neigh", "replace", self.their_ip, "dev", self.ours, *wrong)
        self.ip("neigh", "replace", self.our_ip, "dev", self.theirs, *wrong, inside=True)

    def down(self) -> None:
        # The pair first: with its namespace alone it would go some time later, and its name not be free yet.
        self.ip("link", "delete", self.ours)
        self.ip("netns", "delete", self.space)


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(os.getpid())
    network.up()
    yield network
    network.down()


@pytest.fixture(scope="module")
def tcp_world(tmp_path_factory: pytest.TempPathFactory, postgres_template: Path) -> Iterator[World]:
    with own_world(tmp_path_factory.mktemp("veth"), postgres_template, tcp=True) as (_, world):
        yield world


@pytest.mark.root
@pytest.mark.parametrize("question", ["SELECT 1", "SELECT pg_sleep(60)"])
def test_a_session_into_nothing_is_given_up_by_its_client(tcp_world: World, network: Network, question: str) -> None:
    conninfo = tcp_world.logins.conninfo(
        tcp_world.logins.engine, search_path="turno,pg_temp", application="swallowed", timeouts={}
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
        known = {**conninfo_to_dict(tcp_world.url), "host": network.our_ip, "port": str(link_port)}
        there = make_conninfo(**known | quick)  # type: ignore[arg-type]  # libpq takes words for all of these
        client = subprocess.Popen(
            ["ip", "netns", "exec", network.space, sys.executable, "-c", HOLD, there, question],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert client.stdout is not None
            assert client.stdin is not None
            assert client.stdout.readline() == "locked\n"
            network.swallow()
            began = monotonic()
            client.stdin.write("go\n")
            client.stdin.flush()
            assert client.stdout.readline().startswith("given up:")
            assert monotonic() - began < 12
        finally:
            client.kill()
            client.communicate()
