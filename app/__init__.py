"""An ERP's web application: its page of orders to invoice, and Turno's pages and API beside it."""

from flask import Flask

from app.invoicing_page import orders_page
from app.words import WORDS
from turno import Turno


def create_app() -> Flask:
    """Return the application, on the settings of the environment; `turno serve` serves it."""
    app = Flask(__name__, static_folder=None)
    Turno(app, pages=(orders_page,), words=WORDS)
    return app
