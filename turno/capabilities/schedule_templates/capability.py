"""Templates of schedules, with a copy for each tenant. This declaration is all that the core reads."""

from turno.capability import Capability, Command, JobFilter, Link, Task
from turno.tenancy.rights.matrix import OWN_ROWS, READ_WRITE, Matrix, Policy, may, roles

_HERE = "turno.capabilities.schedule_templates"

CAPABILITY = Capability(
    name="schedule_templates",
    control=Matrix(
        functions={"template_tenants": roles("engine"), "templates_due": roles("engine")},
        relations={
            "schedule_templates": may(owners="SELECT", operator=READ_WRITE),
            "template_zones": may(owners="SELECT", operator=READ_WRITE),
            "template_copies": may(owners=READ_WRITE),
            "template_runs": may(owners=READ_WRITE),
            "template_copies_listed": may(operator="SELECT"),
            "template_jobs": may(operator="SELECT"),
        },
        policies={
            ("template_copies", "own_template_copies"): Policy("*", OWN_ROWS, None),
            ("template_runs", "own_template_runs"): Policy("*", OWN_ROWS, None),
        },
    ),
    tenant=Matrix(
        functions={
            "template_fire": roles("engine"),
            "template_copies": roles("api"),
            "template_copy_switch": roles("api"),
        }
    ),
    tasks=(Task("templates fired", f"{_HERE}.firing:fire_due"),),
    checks=(f"{_HERE}.stored:copies_with_problem",),
    commands={"template": Command(f"{_HERE}.command:template", "Create jobs at times in every tenant.")},
    routes=(
        f"{_HERE}.api:templates",
        f"{_HERE}.admin_api:admin_templates",
        f"{_HERE}.pages:template_pages",
        f"{_HERE}.admin_page:template_list",
    ),
    menu=(Link("/templates", "templates"),),
    operator_menu=(Link("/templates", "admin templates"),),
    job_filters={
        "template": JobFilter(
            "Only jobs of this template of schedules; may be repeated.",
            api="j.origin IN (SELECT 'template ' || name FROM unnest(%(template)s::text[]) AS name)",
            operator="job_id IN (SELECT t.job_id FROM template_jobs t WHERE t.name = ANY (%(template)s))",
        )
    },
)
