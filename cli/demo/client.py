"""A user of one tenant, calling the web like a browser or another program."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from cli.demo.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Collection

REQUEST_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Client:
    """Calls the web on a loopback port."""

    port: int
    tenant: str
    token: str = field(repr=False)

    def submit(self, job_type: str, payload: dict[str, Any]) -> tuple[str, float]:
        """Submit a job; return its id and the milliseconds until the 202."""
        began = perf_counter()
        body = self._ask("POST", f"/api/jobs/{job_type}", {"payload": payload}, expected=(http.HTTPStatus.ACCEPTED,))
        return body["job_id"], 1000 * (perf_counter() - began)

    def job(self, job_id: str) -> dict[str, Any]:
        """Return how a job stands."""
        return self._ask("GET", f"/api/jobs/{job_id}", None, expected=(http.HTTPStatus.OK,))

    def upload(self, name: str, data: bytes) -> str:
        """Keep a small file for a job to read; return its id."""
        made = self._ask("POST", "/api/files", {"name": name, "size": len(data)}, expected=(http.HTTPStatus.CREATED,))
        self._ask("PUT", made["links"]["pieces"].replace("{n}", "0"), data, expected=(http.HTTPStatus.OK,))
        return str(made["file_id"])

    def schedule(self, name: str, wanted: dict[str, Any]) -> str:
        """Save a schedule, new or not, and return when it fires next."""
        saved = (http.HTTPStatus.OK, http.HTTPStatus.CREATED)
        body = self._ask("PUT", f"/api/schedules/{name}", wanted, expected=saved)
        return str(body["next_runs"][0])

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | bytes | None, *, expected: Collection[int]
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}", "X-Schema": self.tenant}
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/octet-stream"
        elif body is not None:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": uuid4().hex}
        # Not urllib.request, which would ask the environment's proxy for a loopback address.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECONDS)
        try:
            sent = json.dumps(body) if isinstance(body, dict) else body
            connection.request(method, path, sent, headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status not in expected:
            raise DemoFailed(f"{method} {path} for {self.tenant} answered {response.status}: {text[:300]}")
        answer: dict[str, Any] = json.loads(text)
        return answer
