"""Pages: jobs and notifications of a tenant's users in a browser. This declaration is all that the core reads."""

from turno.capability import Capability

_PACKAGE = "turno.capabilities.pages"

CAPABILITY = Capability(
    name="pages",
    routes=(
        f"{_PACKAGE}.home:home",
        f"{_PACKAGE}.job_page:job_page",
        f"{_PACKAGE}.notifications:notification_pages",
    ),
)
