"""Post to an address from a submission: without redirects, not into private networks, reading a short answer."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from threading import Timer
from urllib.parse import urlsplit

ANSWERS_WITHIN = 5.0  # seconds for each step of a delivery
ENDS_WITHIN = 10.0  # seconds for the request and the answer together
LARGEST_ANSWER = 1024  # bytes of an answer that are read
# IPv4-mapped, IPv4-compatible and translated (NAT64) addresses end with an IPv4 address; so do ISATAP's.
ENDING_IN_IPV4 = tuple(ip_network(text) for text in ("::ffff:0:0/96", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
ISATAP = 0x5EFE  # before the IPv4 address
LOCAL_NAT64 = ip_network("64:ff9b:1::/48")


class NotDelivered(Exception):
    """The receiver did not accept the delivery; the message has the reason without the address's path and query."""


class NeverTaken(NotDelivered):
    """The refusal is permanent: further tries are useless."""


def post(url: str, body: bytes, headers: Mapping[str, str], *, private: bool) -> None:
    """Return when the receiver answered with a status from 200 to 299; raises NotDelivered, or OSError.

    The connection goes to the checked address, even if the name resolves to another address afterwards.
    """
    address = urlsplit(url)
    host, secure = address.hostname or "", address.scheme == "https"
    port = address.port or (443 if secure else 80)
    connection = HTTPConnection(host, port, timeout=ANSWERS_WITHIN)
    connection.sock = _connected(host, port, secure=secure, private=private)
    # Each byte of an answer may arrive within the timeout of a step: the whole has a limit, too.
    end = Timer(ENDS_WITHIN, connection.sock.shutdown, (socket.SHUT_RDWR,))
    end.daemon = True
    end.start()
    try:
        target = (address.path or "/") + (f"?{address.query}" if address.query else "")
        connection.request(
            "POST", target, body, {"Host": address.netloc, "Content-Type": "application/json", **headers}
        )
        answer = connection.getresponse()
        answer.read(LARGEST_ANSWER)
        if not 200 <= answer.status <= 299:  # noqa: PLR2004 - a range of HTTP
            raise NotDelivered(f"it answered {answer.status}")
    finally:
        end.cancel()
        connection.close()


def _connected(host: str, port: int, *, secure: bool, private: bool) -> socket.socket:
    addresses = [sockaddr[0] for *_, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    reachable = [str(address) for address in addresses if private or _is_public(str(address))]
    if not reachable:
        raise NotDelivered(
            "its host has none but private addresses, which only an entry http://HOST of TURNO_WEBHOOK_HOSTS allows"
        )
    trusted = ssl.create_default_context() if secure else None
    raw = socket.create_connection((reachable[0], port), timeout=ANSWERS_WITHIN)
    # `wrap_socket` closes the socket of a failed handshake.
    return raw if trusted is None else trusted.wrap_socket(raw, server_hostname=host)


def _is_public(text: str) -> bool:
    reached = list(_reached(text.partition("%")[0]))
    return all(address.is_global and not address.is_multicast and address not in LOCAL_NAT64 for address in reached)


def _reached(text: str) -> Iterator[IPv4Address | IPv6Address]:
    """Yield an address, and the IPv4 addresses that it embeds: a gateway or tunnel may deliver to them."""
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        last = IPv4Address(int(address) & 0xFFFFFFFF)
        if any(address in network for network in ENDING_IN_IPV4) or int(address) >> 32 & 0xFDFFFFFF == ISATAP:
            yield last
        yield from (address.sixtofour,) if address.sixtofour else ()
        yield from address.teredo or ()
    if not getattr(address, "ipv4_mapped", None):
        yield address
