"""An ERP in FastAPI that was there before: its own login, pages and errors, in which Turno is mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from starlette.middleware.sessions import SessionMiddleware

from tests.mounting_host import MOUNTED
from turno import Principal, TurnoASGI

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import Response
    from starlette.types import Scope


async def signed_in(scope: Scope) -> Principal | None:
    """Return the ERP's signed-in user, by its own session."""
    session = Request(scope).session
    if "user" not in session:
        return None
    return Principal(user=session["user"], tenants=session["branches"])


app = FastAPI()
app.add_middleware(SessionMiddleware, secret_key="the ERP's own key")


@app.middleware("http")
async def mark(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Mark each response, those of Turno also."""
    response = await call_next(request)
    response.headers["X-Served-By"] = "erp"
    return response


@app.post("/login", response_class=PlainTextResponse)
async def login(request: Request) -> str:
    """Sign in anybody."""
    form = parse_qs((await request.body()).decode())
    request.session.update(user=form["user"][0], branches=form["branch"])
    return "welcome"


@app.exception_handler(404)
async def nowhere(_request: Request, _error: Exception) -> Response:
    """Answer an unknown address."""
    return PlainTextResponse("the ERP knows no such page", 404)


app.mount(MOUNTED["url_prefix"], TurnoASGI(principal=signed_in, sign_in="/login"))
