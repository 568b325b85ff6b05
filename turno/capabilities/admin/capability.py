"""Administration: API and pages of operators over many tenants. This declaration is all that the core reads."""

from turno.capability import Capability, Link

_HERE = "turno.capabilities.admin"

CAPABILITY = Capability(
    name="admin",
    routes=(
        f"{_HERE}.dead_letters:admin",
        f"{_HERE}.jobs:admin_jobs",
        f"{_HERE}.job_page:admin_logs",
        f"{_HERE}.settings:admin_settings",
        f"{_HERE}.overview:admin_workers",
        f"{_HERE}.overview:overview",
        f"{_HERE}.jobs_page:job_pages",
        f"{_HERE}.settings:setting_pages",
        f"{_HERE}.job_page:job_life",
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
