"""Audit: a record of each change by an operator. This declaration is all that the core reads."""

from turno.capability import Capability, Command, Link
from turno.tenancy.rights.matrix import Matrix, may

_PACKAGE = "turno.capabilities.audit"

CAPABILITY = Capability(
    name="audit",
    control=Matrix(relations={"operator_audit": may(operator="SELECT")}),
    commands={"audit": Command(f"{_PACKAGE}.command:audit", "List the changes by operators.")},
    routes=(f"{_PACKAGE}.listing:admin_audit", f"{_PACKAGE}.listing:audit_list"),
    operator_menu=(Link("/audit", "admin audit"),),
    chart_marks=(f"{_PACKAGE}.stored:list_audit",),
)
