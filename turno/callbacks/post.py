"""Post to an address that somebody else chose: no redirect, no private network, and an answer of a few bytes."""

import socket
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection
from ipaddress import ip_address
from threading import Timer
from urllib.parse import urlsplit

ANSWERS_WITHIN = 5.0  # seconds for each step of a delivery
ENDS_WITHIN = 10.0  # seconds for the request and the answer together
LARGEST_ANSWER = 1024  # bytes of an answer that are read


class NotDelivered(Exception):
    """The receiver did not take it; the message says why, without the address's path and query."""


class NeverTaken(NotDelivered):
    """To try again is of no use."""


def post(url: str, body: bytes, headers: Mapping[str, str], *, private: bool) -> None:
    """Return when the receiver answered with a status from 200 to 299; raises NotDelivered, or OSError.

    The address that was looked at is the one that is called: a name that leads elsewhere the next moment leads nowhere.
    """
    place = urlsplit(url)
    host, secure = place.hostname or "", place.scheme == "https"
    port = place.port or (443 if secure else 80)
    connection = HTTPConnection(host, port, timeout=ANSWERS_WITHIN)
    connection.sock = _connected(host, port, secure=secure, private=private)
    # Each byte of an answer may come just in time: the whole has an end, too.
    end = Timer(ENDS_WITHIN, connection.sock.shutdown, (socket.SHUT_RDWR,))
    end.daemon = True
    end.start()
    try:
        target = (place.path or "/") + (f"?{place.query}" if place.query else "")
        connection.request("POST", target, body, {"Host": place.netloc, "Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        answer.read(LARGEST_ANSWER)
        if not 200 <= answer.status <= 299:  # noqa: PLR2004 - a range of HTTP
            raise NotDelivered(f"it answered {answer.status}")
    finally:
        end.cancel()
        connection.close()


def _connected(host: str, port: int, *, secure: bool, private: bool) -> socket.socket:
    found = [place[0] for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    reachable = [str(one) for one in found if private or _is_public(str(one))]
    if not reachable:
        raise NotDelivered("its host has none but private addresses, which CALLBACK_PRIVATE does not allow")
    trusted = ssl.create_default_context() if secure else None
    raw = socket.create_connection((reachable[0], port), timeout=ANSWERS_WITHIN)
    # One whose handshake fails is closed by `wrap_socket`.
    return raw if trusted is None else trusted.wrap_socket(raw, server_hostname=host)


def _is_public(text: str) -> bool:
    address = ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_global and not address.is_multicast
