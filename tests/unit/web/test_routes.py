"""A view without an access rule is refused at its registration."""

from __future__ import annotations

import pytest

from turno.web.routes import Answer, Call, Routes

PLAIN = {200: Answer(about="Nothing.")}


def test_view_is_authenticated_or_declared_public() -> None:
    routes = Routes("tried", __name__, tag="tried")
    with pytest.raises(TypeError, match="GET /api/all"):
        routes.operation("GET /api/all", answers=PLAIN)(_without_call)
    with pytest.raises(TypeError, match="GET /api/mine"):
        routes.operation("GET /api/mine", answers=PLAIN, everybody=True)(_with_call)
    routes.operation("GET /api/mine", answers=PLAIN)(_with_call)
    assert routes.operations["_with_call"].access == "user"


def _without_call() -> None:
    """Answer everybody."""


def _with_call(call: Call) -> None:
    """Answer a user."""
