"""GET /admin/charts and the charts of GET /admin: throughput, waits and failures of the last hours."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from flask import Response, render_template
from markupsafe import Markup

from turno.capabilities.statistics import over_time
from turno.capabilities.statistics.charts import Charts, read_charts
from turno.store.operator.outcome_counts import Operator
from turno.web.pages.drawing import draw
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import searchable
from turno.web.services import as_operator, at

charts = OperatorPages("operator_charts", __name__, template_folder="templates")

Window = Literal["1h", "6h", "24h"]
# The length of a window, and the step of its points.
WINDOWS: dict[Window, tuple[timedelta, timedelta]] = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "6h": (timedelta(hours=6), timedelta(minutes=5)),
    "24h": (timedelta(hours=24), timedelta(minutes=15)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsQuery:
    """Window and selection of jobs, and the meaning of a row of charts; a form also sends empty values."""

    window: Window = "1h"
    by: over_time.By = ""
    type: str = ""
    tenant: str = ""


@charts.page("/admin/charts")
def index(visit: OperatorVisit, asked: ChartsQuery) -> Response:
    """Draw the last hours."""
    with as_operator() as operator:
        found = read_charts(
            operator,
            *WINDOWS[asked.window],
            companies=visit.companies,
            by=asked.by,
            job_type=searchable(asked.type) or None,
            tenant=searchable(asked.tenant) or None,
        )
    section = _section(visit, found, by=asked.by)
    return draw("turno/admin/charts.html", visit=visit, asked=asked, values=visit.filter_values(), section=section)


def overview_section(operator: Operator, visit: OperatorVisit) -> Markup:
    """Draw the last hour of all jobs."""
    return _section(visit, read_charts(operator, *WINDOWS["1h"], companies=visit.companies, marks=3))


def _section(visit: OperatorVisit, found: Charts, *, by: over_time.By = "") -> Markup:
    spoken = visit.localizer
    page = "turno/admin/charts_section.html"
    return Markup(render_template(page, charts=found, by=by, localizer=spoken, say=spoken.say, at=at))  # noqa: S704
