"""The required form of every refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from werkzeug.test import TestResponse


def problem_of(answer: TestResponse, status: int) -> dict[str, Any]:
    """Return a problem document after holding it to its form."""
    assert answer.status_code == status, answer.text
    assert answer.mimetype == "application/problem+json"
    body: dict[str, Any] = answer.get_json()
    assert body["status"] == status
    assert body["instance"].startswith("urn:uuid:")
    assert body["detail"].endswith(".")
    return body


def without_instance(answer: TestResponse) -> dict[str, Any]:
    """Return the common part of two refusals: all but the error's id."""
    body: dict[str, Any] = answer.get_json()
    del body["instance"]
    headers = {
        name: value for name, value in answer.headers.items() if name not in {"X-Correlation-Id", "Content-Length"}
    }
    return {"status": answer.status_code, "body": body, "headers": headers}
