"""An ERP's web application: its pages of orders and what follows from them, with Turno's pages and API beside them."""

from flask import Flask

from app.authorisations_page import authorisations_page
from app.import_page import import_page
from app.invoicing_page import orders_page
from app.reports_page import reports_page
from turno import Turno

PAGES = (orders_page, authorisations_page, import_page, reports_page)


def create_app() -> Flask:
    """Return the application, on the settings of the environment; `turno serve` serves it."""
    app = Flask(__name__, static_folder=None)
    Turno(app, pages=PAGES)
    return app
