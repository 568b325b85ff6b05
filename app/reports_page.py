"""GET /reports: sales of all branches; POST /reports: have them written to a file to download."""

from uuid import uuid4

from flask import Response, request

from app.job_pages import jobs_above
from turno.capabilities.pages.home import HomeQuery
from turno.pages import Pages, Visit, draw, form_key, go, submit, submitted_before

reports_page = Pages("reports", __name__, template_folder="templates")

REPORT = "consolidated_report"


@reports_page.page("/reports")
def index(visit: Visit, query: HomeQuery) -> Response:
    """Show the form, the reports under way, and the file of the requested report."""
    year = visit.localizer.now.year
    context = jobs_above(visit, REPORT, query)
    return draw("reports.html", visit=visit, query=query, key=uuid4().hex, year=year, **context)


@reports_page.form("/reports")
def start(visit: Visit) -> Response:
    """Submit the report; the form's key makes one job of it however often it is sent."""
    form_key()
    if earlier := submitted_before(visit, REPORT):
        return go(visit.to("/reports", job=earlier, notice="replayed"))
    payload = {name: request.form.get(name, "") for name in ("since", "until", "format")}
    done = submit(visit, REPORT, payload | {"language": visit.localizer.language})
    return go(visit.to("/reports", job=done.job_id, notice=None if done.word == "accepted" else done.word))
