"""One request and its reply over HTTP, with limits of time and size, and errors by the certainty about the effect."""

from __future__ import annotations

import io
import ssl
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from time import monotonic
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from tax_authority.errors import (
    AuthorityBusy,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
)

if TYPE_CHECKING:
    import socket

LARGEST_REPLY_BYTES = 262_144
# Status codes of requests that the server rejected without processing. Any other status except 200 leaves the effect
# unknown; a SOAP fault comes with 500.
TURNED_AWAY = frozenset({400, 401, 403, 404, 405, 411, 413, 414, 415})
TOO_MANY_REQUESTS = 429
READABLE = frozenset({200, 500})


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """Posts over a new connection for each request, follows no redirect, and waits at most the configured time."""

    connect_seconds: float
    read_seconds: float

    def post(self, address: str, body: bytes, action: str) -> bytes:
        """Return the reply's body, of an answer 200 or 500.

        Raises AuthorityUnreachable if nothing was sent, AuthorityRefused or AuthorityBusy if the request was turned
        away, AuthorityUnclear if it was sent and nothing is known.
        """
        connection, path = self._connection(address)
        try:
            try:
                connection.connect()
            except (OSError, HTTPException) as error:
                raise AuthorityUnreachable(f"the tax authority cannot be reached just now: {error}") from error
            return self._exchange(connection, path, body, action)
        finally:
            connection.close()

    def _connection(self, address: str) -> tuple[HTTPConnection, str]:
        url = urlsplit(address)
        host, path = url.hostname or "", quote(url.path or "/", safe="/%")
        try:
            if url.scheme == "https":
                return HTTPSConnection(host, url.port, timeout=self.connect_seconds, context=_tls()), path
            if url.scheme == "http" and _is_loopback(host):
                return HTTPConnection(host, url.port, timeout=self.connect_seconds), path
        except (HTTPException, ValueError) as error:
            raise AuthorityUnreachable(f"the tax authority's address is invalid: {error}") from error
        raise AuthorityUnreachable(
            f"{url.scheme}://{host} is no tax authority's address: use https://, or http:// for a stub on this machine"
        )

    def _exchange(self, connection: HTTPConnection, path: str, body: bytes, action: str) -> bytes:
        deadline = monotonic() + self.read_seconds
        connection.sock.settimeout(self.read_seconds)
        headers = {
            "Accept": "text/xml",
            "Connection": "close",
            "Content-Type": "text/xml; charset=utf-8",
            "SOAPAction": f'"{action}"',
        }
        try:
            connection.request("POST", path, body, headers)
            reply = HTTPResponse(cast("socket.socket", _UntilDeadline(connection.sock, deadline)), method="POST")
            with reply:
                reply.begin()
                content = reply.read(LARGEST_REPLY_BYTES + 1) if reply.status in READABLE else b""
        except (OSError, HTTPException, ValueError) as error:
            raise AuthorityUnclear("the request was sent, and no whole answer came from the tax authority") from error
        if reply.status == TOO_MANY_REQUESTS:
            raise AuthorityBusy("the tax authority takes no more requests just now (429)")
        if reply.status in TURNED_AWAY:
            raise AuthorityRefused(f"the tax authority's server turned the request away ({reply.status})")
        if reply.status not in READABLE or len(content) > LARGEST_REPLY_BYTES or (reply.length or 0) > 0:
            raise AuthorityUnclear(f"the tax authority's answer was not understood (HTTP {reply.status})")
        return content


class _UntilDeadline(io.RawIOBase):
    """The reading side of a socket: every byte of a reply comes before one deadline, however slowly they drip."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Be the socket that HTTPResponse reads from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - monotonic()
        if left <= 0:
            raise TimeoutError("the reply took too long")
        self._sock.settimeout(left)
        return self._sock.recv_into(buffer)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # The authority's servers offer Diffie-Hellman groups that OpenSSL calls too small; without them the handshake
    # takes elliptic curves or RSA, and nothing else of the security level is given up.
    context.set_ciphers("DEFAULT:!DH")
    return context
