"""One URL, several nodes: everything but the host is theirs together."""

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.tls import make_authority
from turno.capabilities.rabbitmq.connection import Link
from turno.capabilities.rabbitmq.topology import nodes


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("amqp://one/turno", [("one", 5672)]),
        ("amqp://ana:p%40ss%2C@one:1,two:2,[::1]:3/turno", [("one", 1), ("two", 2), ("::1", 3)]),
    ],
)
def test_each_host_of_a_url_is_a_node(url: str, addresses: list[tuple[str, int]]) -> None:
    result = nodes(url)
    assert [(node.host, node.port) for node in result] == addresses
    assert {node.virtual_host for node in result} == {"turno"}
    assert {node.credentials.password for node in result} == {"p@ss," if "ana" in url else "guest"}
    assert {node.ssl_options for node in result} == {None}
    assert {(node.heartbeat, node.blocked_connection_timeout) for node in result} == {(10, 5)}


def test_each_node_is_checked_against_the_same_authority(tmp_path: Path) -> None:
    authority = make_authority(tmp_path, "authority")
    result = nodes(f"amqps://one,two:9/turno?ssl_options={quote(repr({'cafile': str(authority)}))}")
    assert [(node.host, node.port) for node in result] == [("one", 5671), ("two", 9)]
    assert all(node.ssl_options.context.check_hostname for node in result)


@pytest.mark.parametrize(("chance", "first"), [(0.0, "one"), (0.4, "three"), (0.99, "two")])
def test_link_tries_nodes_from_any_start(chance: float, first: str) -> None:
    link = Link(IdleLoop(), "amqp://one,two,three/turno", chance=lambda: chance)
    tried = []
    for _ in range(3):
        tried.append(link._nodes[0].host)
        link._lost("gone")
    assert tried[0] == first
    assert set(tried) == {"one", "two", "three"}


class IdleLoop:
    def call_later(self, _seconds: float, _call: object) -> None:
        """Never call."""
