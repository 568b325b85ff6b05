"""Administration: API and pages of operators over many tenants. This declaration is all that the core reads."""

from turno.capability import Capability, Link

_PACKAGE = "turno.capabilities.admin"

CAPABILITY = Capability(
    name="admin",
    routes=(
        f"{_PACKAGE}.dead_letters:admin",
        f"{_PACKAGE}.jobs:admin_jobs",
        f"{_PACKAGE}.job_page:admin_logs",
        f"{_PACKAGE}.settings:admin_settings",
        f"{_PACKAGE}.overview:admin_workers",
        f"{_PACKAGE}.overview:overview",
        f"{_PACKAGE}.jobs_page:job_pages",
        f"{_PACKAGE}.settings:setting_pages",
        f"{_PACKAGE}.job_page:job_life",
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
