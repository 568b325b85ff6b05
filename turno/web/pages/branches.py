"""The branches that a user may choose from."""

from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.identity.tenant import Tenant
from turno.web.auth.tokens import Principal
from turno.web.services import services

# An operator may choose any branch; a list of thousands is no choice, so beyond this they are typed.
MOST_LISTED = 50


def branches_of(principal: Principal) -> tuple[str, ...]:
    """Return the slugs of the active branches that the user may choose, in order; an operator's first few."""
    if principal.operator and not principal.tenants:
        return tuple(sorted(tenant.slug for tenant in services().directory.list_active())[:MOST_LISTED])
    return tuple(slug for slug in sorted(principal.tenants)[:MOST_LISTED] if _open(principal, slug))


def _open(principal: Principal, slug: str) -> bool:
    tenant = _found(slug)
    return tenant is not None and principal.issued_at >= tenant.tokens_valid_from


def _found(slug: str) -> Tenant | None:
    try:
        return services().directory.find(slug)
    except UnknownTenant:
        return None
