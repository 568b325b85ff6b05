"""Administration: API and pages of operators over many tenants. This declaration is all that the core reads."""

from turno.capability import Capability, Link

_HERE = "turno.capabilities.admin"

CAPABILITY = Capability(
    name="admin",
    routes=(
        f"{_HERE}.dead_letters:admin",
        f"{_HERE}.jobs:admin_jobs",
        f"{_HERE}.job_life:admin_logs",
        f"{_HERE}.tenants:admin_tenants",
        f"{_HERE}.types:admin_types",
        f"{_HERE}.workers:admin_workers",
        f"{_HERE}.overview:overview",
        f"{_HERE}.jobs_page:job_pages",
        f"{_HERE}.tenants:tenant_list",
        f"{_HERE}.queues:queue_list",
        f"{_HERE}.types:type_list",
        f"{_HERE}.workers:worker_list",
        f"{_HERE}.job_life:job_life",
        f"{_HERE}.job_actions:job_actions",
    ),
    operator_menu=(
        Link("", "admin overview"),
        Link("/jobs", "admin jobs"),
        Link("/tenants", "admin tenants"),
        Link("/queues", "admin queues"),
        Link("/types", "admin types short"),
        Link("/workers", "admin workers"),
        Link("/failures", "admin failures"),
    ),
)
