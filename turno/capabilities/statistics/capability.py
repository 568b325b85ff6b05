"""Statistics: charts, totals and metrics of the outcomes of jobs. This declaration is all that the core reads."""

from turno.capability import Capability, Link
from turno.tenancy.rights.matrix import Matrix, may

_HERE = "turno.capabilities.statistics"

CAPABILITY = Capability(
    name="statistics",
    control=Matrix(relations={"submitted_jobs": may(operator="SELECT")}),
    routes=(f"{_HERE}.api:stats", f"{_HERE}.metrics:metrics", f"{_HERE}.charts:charts"),
    overview_sections=(f"{_HERE}.charts:overview_section",),
    operator_menu=(Link("/charts", "admin charts"),),
)
