"""Alerts: messages to operators about the troubles of the installation. This declaration is all that the core reads."""

from turno.capability import Capability, Command, Delivery
from turno.tenancy.rights.matrix import READ_WRITE, Matrix, may, roles

_PACKAGE = "turno.capabilities.alerts"

CAPABILITY = Capability(
    name="alerts",
    control=Matrix(
        functions={"alert_kinds": roles("web")},
        relations={name: may(operator=READ_WRITE) for name in ("alert_states", "alert_messages")},
    ),
    health_checks=("SELECT * FROM turno.alert_kinds()",),
    deliveries=(Delivery("alerts", f"{_PACKAGE}.rounds:delivery"),),
    commands={"alert": Command(f"{_PACKAGE}.command:alerts", "List raised alerts; send a test to each receiver.")},
)
