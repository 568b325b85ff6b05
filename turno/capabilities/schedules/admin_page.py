"""GET /admin/schedules: the schedules of every tenant; each leads to the tenant's page, which changes it."""

from dataclasses import dataclass

from flask import Response

from turno.capabilities.schedules.listed import all_schedules
from turno.web.pages.drawing import draw
from turno.web.pages.page_routes import OperatorPages, OperatorVisit
from turno.web.requests import Text
from turno.web.services import as_operator

schedule_list = OperatorPages("operator_schedules", __name__, template_folder="templates")

SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleListQuery:
    """Behind which tenant and which of its schedules the page begins."""

    tenant: Text = ""
    name: Text = ""


@schedule_list.page("/admin/schedules")
def schedules(visit: OperatorVisit, asked: ScheduleListQuery) -> Response:
    """List schedules by tenant and name."""
    with as_operator() as operator:
        found = all_schedules(operator, companies=visit.companies, after=(asked.tenant, asked.name), limit=SHOWN + 1)
    last = found[SHOWN - 1] if len(found) > SHOWN else None
    return draw("turno/admin/schedules.html", visit=visit, asked=asked, schedules=found[:SHOWN], last=last)
