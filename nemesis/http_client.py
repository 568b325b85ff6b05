"""HTTP requests of clients, each on a new connection, and a record of the answers."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from turno.commands.token import development_token

if TYPE_CHECKING:
    from random import Random

    from turno.settings import Settings
    from turno.tenancy.identity.tenant import Tenant
    from turno.testing.leak_detector import LeakDetector

PATIENCE = 5.0  # seconds
HUNG_UP = 0.1  # of all requests: the client closes the connection before the answer
EXPECTED = {
    HTTPStatus.OK, HTTPStatus.ACCEPTED,
    HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT,  # the job is in no state to be cancelled or retried
    HTTPStatus.SERVICE_UNAVAILABLE,
}  # fmt: skip


class NoAnswer(Exception):
    """The web did not answer, or answered that it could not; the request may have taken effect."""


class Answer(NamedTuple):
    """An HTTP status and a JSON body."""

    status: int
    body: dict[str, Any]

    @property
    def job_id(self) -> UUID | None:
        """Return the id of the accepted job, or None."""
        return UUID(self.body["job_id"]) if self.status == HTTPStatus.ACCEPTED else None


class HttpClient:
    """Sends requests to the web and records the answers; safe to share between threads."""

    def __init__(self, port: int, settings: Settings, *, leak_detector: LeakDetector) -> None:
        self._port = port
        self._settings = settings
        self._leak_detector = leak_detector
        self._lock = Lock()
        self.answers = Counter[str]()
        self.faults: list[str] = []

    def ask(
        self, user: str, tenant: Tenant, path: str, body: dict[str, Any], *, key: str = "", chance: Random | None = None
    ) -> Answer:
        """POST as a user of a tenant; with `chance`, the client may hang up. Raises NoAnswer."""
        headers = {
            "Authorization": f"Bearer {development_token(self._settings, user=user, tenants=[tenant.slug])}",
            "X-Schema": tenant.slug,
            "Content-Type": "application/json",
        }
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            if chance is not None and chance.random() < HUNG_UP:
                self._count("hung up")
                raise NoAnswer("the client has hung up")
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self._count("none")
            raise NoAnswer(repr(error)) from error
        finally:
            connection.close()
        self._count(str(response.status))
        self._leak_detector.seen(text, by=tenant)
        if response.status not in EXPECTED:
            self.faults.append(f"HTTP: {path.partition('?')[0]} was answered {response.status}: {text[:300]}")
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise NoAnswer(text)
        return Answer(response.status, json.loads(text))

    def answers_at_all(self) -> bool:
        """Return whether the web is ready."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _count(self, what: str) -> None:
        with self._lock:
            self.answers[what] += 1
