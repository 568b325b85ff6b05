"""An ERP's web application: its page of orders to invoice, and Turno's pages and API beside it."""

from pathlib import Path

from flask import Flask

from app.invoicing_page import orders_page
from turno import Turno

LOCALE = Path(__file__).parent / "locale"


def create_app() -> Flask:
    """Return the application, on the settings of the environment; `turno serve` serves it."""
    app = Flask(__name__, static_folder=None)
    Turno(app, pages=(orders_page,), locale=LOCALE)
    return app
