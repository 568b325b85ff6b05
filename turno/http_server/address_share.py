"""Bounds the connections of one address."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network


class AddressShare:
    """Counts open connections by IPv4 address and by IPv6 network of 64 bits.

    Trusted proxies, which pass on the requests of many clients, and local sockets have no bound.
    """

    def __init__(self, most: int, trusted: Sequence[Network]) -> None:
        self._most = most
        self._open = Counter[Network]()
        self._network = lru_cache(4096)(partial(network_of, trusted=trusted))

    def open(self, host: str) -> Callable[[], None] | None:
        """Count a connection and return the function that counts its end; None if its address has the most."""
        network = self._network(host)
        if network is None:
            return lambda: None
        if self._open[network] >= self._most:
            return None
        self._open[network] += 1
        return partial(self._close, network)

    def _close(self, network: Network) -> None:
        self._open[network] -= 1
        if not self._open[network]:
            del self._open[network]


def network_of(host: str, *, trusted: Sequence[Network]) -> Network | None:
    """Return the network that an address counts for; None for a trusted proxy and for a local socket."""
    if not host:
        return None
    address = ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in trusted):
        return None
    return ip_network((address, 32 if address.version == 4 else 64), strict=False)  # noqa: PLR2004 - IPv4
