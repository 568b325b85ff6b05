"""Statistics: charts, totals and metrics of the outcomes of jobs. This declaration is all that the core reads."""

from turno.capability import Capability, Link
from turno.tenancy.rights.matrix import Matrix, may

_PACKAGE = "turno.capabilities.statistics"

CAPABILITY = Capability(
    name="statistics",
    control=Matrix(relations={"submitted_jobs": may(operator="SELECT")}),
    routes=(f"{_PACKAGE}.api:stats", f"{_PACKAGE}.metrics:metrics", f"{_PACKAGE}.charts:charts"),
    overview_sections=(f"{_PACKAGE}.charts:overview_section",),
    operator_menu=(Link("/charts", "admin charts"),),
)
