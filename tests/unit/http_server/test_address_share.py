"""Which connections count for one address."""

from ipaddress import ip_network
from typing import cast

import pytest

from turno.http_server.client_connection import ClientConnection, Connections

TRUSTED = [ip_network("127.0.0.1/32"), ip_network("10.1.0.0/16"), ip_network("::1/128")]


class Busy:
    """A connection whose request is not finished."""

    idle = False


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("203.0.113.1", "203.0.113.1", True),
        ("203.0.113.1", "203.0.113.2", False),
        ("::ffff:203.0.113.1", "203.0.113.1", True),
        ("::ffff:203.0.113.1", "::ffff:203.0.113.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("127.0.0.1", "127.0.0.1", False),
        ("10.1.2.3", "10.1.2.3", False),
        ("::ffff:10.1.2.3", "10.1.2.3", False),
        ("::1", "::1", False),
        ("", "", False),
    ],
)
def test_an_address_has_its_share_and_gets_it_back(first: str, second: str, *, same: bool) -> None:
    connections = Connections(2, TRUSTED)
    earlier, later = (cast("ClientConnection", Busy()) for _ in range(2))
    assert connections.add(earlier, first)
    assert connections.add(later, second) != same
    connections.discard(earlier)
    assert connections.add(later, second) or not same
