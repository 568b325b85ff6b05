"""Webhooks and mails at the end of jobs. This declaration is all that the core reads."""

from turno.capability import Capability, Command, Delivery, Link, Task
from turno.tenancy.rights.matrix import OWN_ROWS, READ_WRITE, Matrix, Policy, may, roles

_PACKAGE = "turno.capabilities.webhooks"

CAPABILITY = Capability(
    name="webhooks",
    control=Matrix(
        functions={
            "webhooks_due": roles("engine"),
            "webhooks_take": roles("engine"),
            "webhook_tried": roles("engine"),
            "webhooks_settle": roles("operator"),
        },
        relations={
            "webhooks": may(owners=READ_WRITE),
            "webhook_addresses": may(operator="SELECT INSERT DELETE"),
            "failing_webhooks": may(operator="SELECT"),
        },
        policies={("webhooks", "own_webhooks"): Policy("*", OWN_ROWS, None)},
    ),
    tenant=Matrix(functions={"webhooks_put": roles("api")}),
    tasks=(Task("deliveries", f"{_PACKAGE}.delivery:make_deliveries_due"),),
    deliveries=(Delivery("webhooks", f"{_PACKAGE}.delivery:delivery"),),
    submissions=(f"{_PACKAGE}.submission:SUBMISSION",),
    checks=(f"{_PACKAGE}.stored:failing_webhooks",),
    commands={"webhook": Command(f"{_PACKAGE}.command:webhooks", "Add webhooks; list and resend failed deliveries.")},
    routes=(f"{_PACKAGE}.admin:admin_webhooks", f"{_PACKAGE}.admin:webhook_list"),
    operator_menu=(Link("/webhooks", "admin webhooks"),),
)
