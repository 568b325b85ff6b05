"""An ERP that was there before: its own login, pages, errors and hooks, in which Turno is mounted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, abort, g, request, session

from turno import Principal, Turno

if TYPE_CHECKING:
    from flask import Request

TEMPLATES = Path(__file__).parent / "host_templates"
MOUNTED: dict[str, Any] = {"url_prefix": "/work/jobs", "sign_in": "/login", "layout": "with_jobs.html"}


def signed_in(_request: Request) -> Principal | None:
    """Return the ERP's signed-in user, by its own session."""
    if "user" not in session:
        return None
    return Principal(user=session["user"], tenants=session["branches"], operator=session.get("admin", False))


def host() -> Flask:  # noqa: C901 - the routes of a small application
    """Return the ERP without Turno."""
    app = Flask("erp", static_folder=None, template_folder=TEMPLATES)
    app.secret_key = "the ERP's own key"
    app.config["MAX_CONTENT_LENGTH"] = 5_000_000

    @app.before_request
    def notice() -> None:
        g.visit = "the ERP's own"

    @app.after_request
    def mark(response: Response) -> Response:
        response.headers["X-Served-By"] = "erp"
        return response

    @app.errorhandler(404)
    def nowhere(_error: Exception) -> tuple[str, int]:
        return "the ERP knows no such page", 404

    @app.errorhandler(413)
    def too_large(_error: Exception) -> tuple[str, int]:
        return "the ERP takes less", 413

    @app.errorhandler(Exception)
    def failed(error: Exception) -> tuple[str, int]:
        return f"the ERP failed: {type(error).__name__}", 500

    @app.post("/login")
    def login() -> str:
        session.update(
            user=request.form["user"], branches=request.form.getlist("branch"), admin="admin" in request.form
        )
        return "welcome"

    @app.get("/invoices")
    def invoices() -> dict[str, Any]:
        return {"visit": g.visit, "zebra": 1, "ant": 2}

    @app.post("/upload")
    def upload() -> str:
        return str(len(request.get_data()))

    @app.get("/broken")
    def broken() -> str:
        raise ZeroDivisionError

    @app.get("/forbidden")
    def forbidden() -> str:
        abort(403)

    return app


def create_app() -> Flask:
    """Return the ERP with Turno mounted in it, on the settings of the environment."""
    app = host()
    Turno(app, principal=signed_in, **MOUNTED)
    return app
