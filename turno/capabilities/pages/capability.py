"""Pages: jobs and notifications of a tenant's users in a browser. This declaration is all that the core reads."""

from turno.capability import Capability

_HERE = "turno.capabilities.pages"

CAPABILITY = Capability(
    name="pages",
    routes=(
        f"{_HERE}.home:home",
        f"{_HERE}.job_page:job_page",
        f"{_HERE}.notifications:notification_pages",
    ),
)
