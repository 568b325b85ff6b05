"""An application that mounts Turno when it is imported, as its handlers import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Flask

from turno import Turno, TurnoASGI

if TYPE_CHECKING:
    from starlette.types import Scope


async def nobody(_scope: Scope) -> None:
    """Return no user."""


app = Flask("erp", static_folder=None)
app.config["GREETING"] = "Hello"
Turno(app, url_prefix="/jobs", principal=lambda _request: None)
asgi = TurnoASGI(principal=nobody)
