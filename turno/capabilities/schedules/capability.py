"""Schedules: jobs at the moments of a cron rule or an interval. This declaration is all that the core reads."""

from turno.capability import Capability, Command, Link, Task
from turno.tenancy.rights.matrix import OWN_ROWS, READ_WRITE, Matrix, Policy, may, roles

_HERE = "turno.capabilities.schedules"

CAPABILITY = Capability(
    name="schedules",
    control=Matrix(
        functions={"schedule_tenants": roles("engine"), "schedules_due": roles("engine")},
        relations={"schedules": may(owners=READ_WRITE), "schedules_listed": may(operator="SELECT")},
        policies={("schedules", "own_schedules"): Policy("*", OWN_ROWS, None)},
    ),
    tenant=Matrix(
        functions={
            "schedule_put": roles("api"),
            "schedule_switch": roles("api"),
            "schedule_remove": roles("api"),
            "schedule_fire": roles("engine"),
            "schedule_repair": roles("engine"),
        },
        relations={"job_schedules": may(api="SELECT"), "job_schedule_runs": may(api="SELECT")},
        invokers=frozenset({"schedule_copy", "schedule_take_back"}),
    ),
    tasks=(
        Task("scheduled", f"{_HERE}.maintenance:fire_due"),
        Task("schedules repaired", f"{_HERE}.maintenance:repair"),
    ),
    checks=(f"{_HERE}.listed:schedules_with_problem",),
    commands={
        "schedule": Command(f"{_HERE}.command:schedule", "Create jobs at times: add, list, set, pause, preview.")
    },
    routes=(f"{_HERE}.api:schedules", f"{_HERE}.pages:schedule_pages", f"{_HERE}.admin_page:schedule_list"),
    menu=(Link("/schedules", "schedules"),),
    operator_menu=(Link("/schedules", "admin schedules"),),
)
