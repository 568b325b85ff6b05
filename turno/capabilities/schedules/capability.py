"""Schedules of tenants, and templates of schedules for all tenants. This declaration is all that the core reads."""

from turno.capability import Capability, Command, JobFilter, Link, Task
from turno.tenancy.rights.matrix import OWN_ROWS, READ_WRITE, Matrix, Policy, may, roles

_PACKAGE = "turno.capabilities.schedules"

CAPABILITY = Capability(
    name="schedules",
    control=Matrix(
        functions={"schedule_tenants": roles("engine"), "schedules_due": roles("engine")},
        relations={
            "schedules": may(owners=READ_WRITE),
            "schedules_listed": may(operator="SELECT"),
            "schedule_templates": may(owners="SELECT", operator=READ_WRITE),
            "template_zones": may(owners="SELECT", operator=READ_WRITE),
            "template_runs": may(owners=READ_WRITE),
            "template_jobs": may(operator="SELECT"),
        },
        policies={
            ("schedules", "own_schedules"): Policy("*", OWN_ROWS, None),
            ("template_runs", "own_template_runs"): Policy("*", OWN_ROWS, None),
        },
        invokers=frozenset({"template_copy"}),
    ),
    tenant=Matrix(
        functions={
            "schedule_put": roles("api"),
            "schedule_switch": roles("api"),
            "schedule_remove": roles("api"),
            "schedule_fire": roles("engine"),
            "schedule_repair": roles("engine"),
            "template_copies": roles("api"),
            "template_copy_switch": roles("api"),
        },
        relations={"job_schedules": may(api="SELECT"), "job_schedule_runs": may(api="SELECT")},
        invokers=frozenset({"schedule_copy", "schedule_take_back"}),
    ),
    tasks=(Task("scheduled", f"{_PACKAGE}.firing:fire_due"), Task("schedules repaired", f"{_PACKAGE}.firing:repair")),
    checks=(f"{_PACKAGE}.listed:with_problem",),
    commands={
        "schedule": Command(f"{_PACKAGE}.command:schedule", "Create jobs at times: add, list, set, pause, preview."),
        "template": Command(f"{_PACKAGE}.command:template", "Create jobs at times in every tenant."),
    },
    routes=(
        f"{_PACKAGE}.api:schedules",
        f"{_PACKAGE}.pages:schedule_pages",
        f"{_PACKAGE}.pages:schedule_list",
        f"{_PACKAGE}.template_copies:templates",
        f"{_PACKAGE}.template_copies:template_pages",
        f"{_PACKAGE}.template_operator:admin_templates",
        f"{_PACKAGE}.template_operator:template_list",
    ),
    menu=(Link("/schedules", "schedules"), Link("/templates", "templates")),
    operator_menu=(Link("/schedules", "admin schedules"), Link("/templates", "admin templates")),
    job_filters={
        "template": JobFilter(
            "Only jobs of this template of schedules; may be repeated.",
            api="j.origin IN (SELECT 'template ' || name FROM unnest(%(template)s::text[]) AS name)",
            operator="job_id IN (SELECT t.job_id FROM template_jobs t WHERE t.name = ANY (%(template)s))",
        )
    },
)
