"""Requests over HTTP, each tried again while trying again may help."""

import json
import random
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import monotonic, sleep
from typing import Any, NoReturn
from urllib.parse import urlsplit

from turno.client.errors import ClientError, Refused, Unavailable

DONE = frozenset({200, 201, 202})
# Statuses after which the same request may succeed: a limit, and proxies and servers that are not ready.
AGAIN = frozenset({429, 502, 503, 504})
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0
LONGEST_SHOWN = 200  # characters of an answer that is no problem document

Token = str | Callable[[], str]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, and the seconds until the next request, if the server names them."""

    body: dict[str, Any]
    retry_after: float | None


class Connection:
    """Sends requests of one user to one tenant; each request has a connection, so threads may share this object."""

    def __init__(
        self, url: str, *, tenant: str, token: Token, timeout: float, patience: float, context: ssl.SSLContext | None
    ) -> None:
        place = urlsplit(url)
        if place.scheme not in {"http", "https"} or not place.hostname or place.query or place.fragment:
            raise ValueError(f"url must be an address such as https://turno.example, not {url!r}")
        self._place = place
        self._tenant = tenant
        self._token = token
        self._timeout = timeout
        self._patience = patience
        self._context = context

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, *, wait: float = 0
    ) -> Answer:
        """Return the answer, which may take `wait` seconds longer than others.

        Raises Refused, or Unavailable when trying again did not help within the patience.
        """
        over, attempt = monotonic() + self._patience, 0
        while True:
            try:
                with self.opened(method, path, body, headers, timeout=self._timeout + wait) as answer:
                    return Answer(_object(answer), retry_after_of(answer))
            except Unavailable as error:
                pause = error.retry_after if error.retry_after is not None else _pause(attempt)
                if monotonic() + pause > over:
                    raise
            sleep(pause)
            attempt += 1

    @contextmanager
    def opened(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Iterator[HTTPResponse]:
        """Yield the successful response to a request; raises as `ask` does, also for an error while it is read."""
        sent = None if body is None else json.dumps(body).encode()
        connection = self._connection(self._timeout if timeout is None else timeout)
        try:
            connection.request(
                method, self._place.path.rstrip("/") + path, sent, self._headers(sent) | dict(headers or {})
            )
            answer = connection.getresponse()
            if answer.status not in DONE:
                _refuse(answer)
            yield answer
        except ssl.SSLCertVerificationError as error:
            raise Refused(f"{self._place.netloc} has an invalid certificate: {error.verify_message}") from error
        except (OSError, HTTPException) as error:
            raise Unavailable(f"{self._place.netloc} did not answer: {type(error).__name__}: {error}") from error
        finally:
            connection.close()

    def _connection(self, timeout: float) -> HTTPConnection:
        host, port = self._place.hostname or "", self._place.port
        if self._place.scheme == "https":
            return HTTPSConnection(host, port, timeout=timeout, context=self._context)
        return HTTPConnection(host, port, timeout=timeout)

    def _headers(self, sent: bytes | None) -> dict[str, str]:
        token = self._token() if callable(self._token) else self._token
        headers = {"Authorization": f"Bearer {token}", "X-Schema": self._tenant, "User-Agent": "turno.client"}
        return headers if sent is None else headers | {"Content-Type": "application/json"}


def retry_after_of(answer: HTTPResponse) -> float | None:
    """Return the seconds of Retry-After; None without it, and for a date."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _refuse(answer: HTTPResponse) -> NoReturn:
    said = answer.read()
    problem = _object_in(said) or {}
    told = str(problem.get("detail") or said.decode("utf-8", "replace")[:LONGEST_SHOWN] or answer.reason)
    kind: type[ClientError] = Unavailable if answer.status in AGAIN else Refused
    raise kind(f"{answer.status}: {told}", status=answer.status, problem=problem, retry_after=retry_after_of(answer))


def _object(answer: HTTPResponse) -> dict[str, Any]:
    said = answer.read()
    if (body := _object_in(said)) is None:
        raise Refused(f"the answer is not a JSON object: {said[:LONGEST_SHOWN]!r}", status=answer.status)
    return body


def _object_in(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _pause(attempt: int) -> float:
    # Twice as long each time, and not all clients at once.
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**attempt) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
