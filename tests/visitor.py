"""A user with a browser's cookies and habits, speaking to the application without a browser."""

from __future__ import annotations

import html
import re
import uuid
from typing import TYPE_CHECKING, Any

from tests.api import token
from turno.web.auth import form_token

if TYPE_CHECKING:
    from flask import Flask
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

OURS = {"Sec-Fetch-Site": "same-origin"}


class Visitor:
    """One browser. It fills in the values of the received forms."""

    def __init__(self, app: Flask, *, base_url: str = "http://localhost") -> None:
        self.client: FlaskClient = app.test_client()
        self.base_url = base_url
        self.user = ""

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path, headers=headers, base_url=self.base_url)

    def post(self, path: str, data: dict[str, Any], *, headers: dict[str, str] = OURS) -> TestResponse:
        return self.client.post(path, data=data, headers=headers, base_url=self.base_url)

    def sign_in(self, user: str | None = None, *tenants: str, **claims: Any) -> TestResponse:
        self.user = user or f"visitor-{uuid.uuid4().hex[:8]}"
        return self.post("/sign-in", {"token": token(self.user, *(tenants or ("north",)), **claims)})

    @property
    def form_token(self) -> str:
        cookie = self.client.get_cookie("turno")
        assert cookie is not None
        return form_token(cookie.value)

    def hidden(self, path: str, name: str) -> str:
        result = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)"', self.get(path).text)
        assert result is not None, f"no field {name} at {path}"
        return html.unescape(result[1])
