"""GET /authorisations: which invoices the tax authority has authorised; POST: have the next ones authorised."""

from typing import Any
from uuid import uuid4

from flask import Response

from app.job_pages import jobs_above
from turno.capabilities.pages.home import HomeQuery
from turno.pages import Pages, Visit, draw, form_key, go, reading, submit, submitted_before

authorisations_page = Pages("authorisations", __name__, template_folder="templates")

SYNC = "taxpayer_sync"
LARGEST = 250  # invoices, as the handler takes them
SHOWN = 25
# In pesos, because no others are sent; in the order in which the authority takes them.
WAITING = """
SELECT invoice_id FROM invoice_authorisations WHERE cae IS NULL AND currency = 'ARS'
ORDER BY kind DESC, point_of_sale, letter, number LIMIT %s
"""
LATEST = """
SELECT kind, letter, point_of_sale, number, issued_on, left(company_name, 200) AS company_name, currency, total, cae,
       cae_expires_on
FROM invoice_authorisations WHERE cae IS NOT NULL ORDER BY authorised_at DESC, invoice_id DESC LIMIT %s
"""


@authorisations_page.page("/authorisations")
def index(visit: Visit, query: HomeQuery) -> Response:
    """Show the waiting invoices, the jobs under way, and the latest codes."""
    context: dict[str, Any] = jobs_above(visit, SYNC, query)
    with reading(visit) as reader:
        waiting = reader.execute(WAITING, (LARGEST,)).rowcount
        latest = reader.execute(LATEST, (SHOWN,)).fetchall()
    return draw(
        "authorisations.html", visit=visit, query=query, key=uuid4().hex, waiting=waiting, latest=latest, **context
    )


@authorisations_page.form("/authorisations")
def start(visit: Visit) -> Response:
    """Have the next invoices authorised; the form's key makes one job of it however often it is sent."""
    form_key()
    with reading(visit) as reader:
        ids = [row["invoice_id"] for row in reader.execute(WAITING, (LARGEST,))]
    if earlier := submitted_before(visit, SYNC):
        return go(visit.to("/authorisations", job=earlier, notice="replayed"))
    if not ids:
        return go(visit.to("/authorisations"))
    done = submit(visit, SYNC, {"invoice_ids": ids})
    return go(visit.to("/authorisations", job=done.job_id, notice=None if done.word == "accepted" else done.word))
